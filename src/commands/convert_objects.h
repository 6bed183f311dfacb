#pragma once
// Where a conversion puts its files in an object store, as there is no file that could be renamed: below the key of the
// new store itself, with the metadata of the root last, so that it is no store before it is complete. Until then the
// object ".codecfs-partial.json" below it says of which conversion it is.

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "commands/convert_target.h"
#include "model/json_value.h"
#include "remote/object_client.h"

namespace codecfs::commands {

class ObjectTarget final : public ConvertTarget {
 public:
  /// EEXIST if there are objects below the key, unless `resume` is set and they are of an interrupted conversion with
  /// this identity; EINVAL if they are of another one. Errors of ObjectClient.
  static Result<std::unique_ptr<ObjectTarget>> begin(std::shared_ptr<remote::ObjectClient> client, std::string key,
                                                     const std::string& name, const Json& identity, bool resume);

  [[nodiscard]] Directory root() const override { return {"", 0}; }
  Result<Directory> make_directory(const Directory& parent, const std::string& name) override;
  Result<> remove_directory(const Directory& parent, const Directory& directory, const std::string& name) override;
  Result<bool> has(const Directory& directory, const std::string& name, uint64_t size) override;
  Result<> write(const Directory& directory, const std::string& name, Bytes content) override;
  Result<> make_link(const Directory& directory, const std::string& name, const std::string& target) override;
  [[nodiscard]] bool consolidates() const override { return false; }
  [[nodiscard]] size_t files_at_once() const override { return 32; }
  /// Nothing is held back but the root, see complete().
  Result<> finish() override { return {}; }

  [[nodiscard]] bool is_resumed() const { return is_resumed_; }
  /// Everything was written: makes it a store.
  Result<> complete();
  /// Removes everything.
  void discard();

 private:
  ObjectTarget(std::shared_ptr<remote::ObjectClient> client, std::string prefix)
      : client_(std::move(client)), prefix_(std::move(prefix)) {}
  Result<> put(const std::string& path, Bytes content);
  Result<> list();

  const std::shared_ptr<remote::ObjectClient> client_;
  const std::string prefix_;
  bool is_resumed_ = false;
  std::unordered_map<std::string, uint64_t> sizes_;        // of what was there when it was resumed
  std::vector<std::pair<std::string, std::string>> root_;  // metadata of the root: names and content
};

}  // namespace codecfs::commands
