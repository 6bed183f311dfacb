#pragma once
// The metadata files of a store in an object store: all of them from one file if it has consolidated metadata, else
// each when it is first asked for. Thread-safe.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/lru_map.h"
#include "base/result.h"
#include "remote/object_client.h"

namespace codecfs::zarr {

/// Whether a key is of a metadata file.
bool is_metadata_key(std::string_view key);

class ObjectTexts {
 public:
  /// `prefix`: what precedes the keys of the store in those of the bucket.
  ObjectTexts(std::shared_ptr<remote::ObjectClient> client, std::string prefix)
      : client_(std::move(client)), prefix_(std::move(prefix)) {}

  /// Reads zarr.json or .zmetadata of the store, or else what the root has. EIO if one is damaged.
  Result<> open();

  using Text = std::shared_ptr<const std::optional<std::string>>;  // none in it: there is no such file
  Result<Text> get(const std::string& key);
  /// Reads these at once, so that get() has them; ignores errors, which get() will return.
  void prepare(const std::vector<std::string>& keys);
  /// Whether a key is that of a group or array, or of the store.
  Result<bool> is_node(const std::string& key);
  /// Whether it is that of an array.
  Result<bool> is_array(const std::string& key);
  /// Whether it is that of something in an array: a chunk, or a directory of chunks.
  Result<bool> is_in_array(const std::string& key);

  /// The names in a group; none if there is no consolidated metadata, which knows them.
  [[nodiscard]] std::optional<std::set<std::string>> members(const std::string& group) const;
  [[nodiscard]] bool is_v3() const { return is_v3_; }

 private:
  Result<> take_v2(const std::string& text);
  Result<bool> take_v3(const std::string& text);
  Result<std::optional<std::string>> read(const std::string& key);

  const std::shared_ptr<remote::ObjectClient> client_;
  const std::string prefix_;
  // set by open()
  bool is_v3_ = false;
  bool is_v2_ = false;
  bool is_consolidated_ = false;
  std::map<std::string, std::string, std::less<>> all_;  // of consolidated metadata
  LruMap<std::string, std::optional<std::string>> read_{size_t{1} << 16, uint64_t{64} << 20};
  LruMap<std::string, bool> arrays_{size_t{1} << 16};  // what is_array() found
};

}  // namespace codecfs::zarr
