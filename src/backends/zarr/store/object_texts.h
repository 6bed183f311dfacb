#pragma once
// The metadata files of a store in an object store: all of them from one file if it has consolidated metadata, else
// each when it is first asked for. Thread-safe.
//
// A file that does not exist is asked for again after kAbsentFor: another program may make it, and an answer may be
// wrong. What this program writes is known here at once. A file is changed on the condition that it is still the one
// from which the change was made (condition_for()), as other programs may change it too.

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/lru_map.h"
#include "base/mutex.h"
#include "base/result.h"
#include "remote/object_client.h"

namespace codecfs::zarr {

/// Whether a key is of a metadata file.
bool is_metadata_key(std::string_view key);

class ObjectTexts {
 public:
  static constexpr std::chrono::seconds kAbsentFor{5};

  /// `prefix`: what precedes the keys of the store in those of the bucket.
  ObjectTexts(std::shared_ptr<remote::ObjectClient> client, std::string prefix)
      : client_(std::move(client)), prefix_(std::move(prefix)) {}

  /// Reads zarr.json or .zmetadata of the store, or else what the root has. EIO if one is damaged.
  Result<> open();

  using Text = std::shared_ptr<const std::optional<std::string>>;  // none in it: there is no such file
  Result<Text> get(const std::string& key);
  /// Reads these at once, so that get() has them; ignores errors, which get() will return.
  /// `until`: after that, none are requested.
  void prepare(const std::vector<std::string>& keys,
               std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());
  /// Whether a key is that of a group or array, or of the store.
  Result<bool> is_node(const std::string& key);
  /// Whether it is that of an array.
  Result<bool> is_array(const std::string& key);
  /// Whether what is known without a request says that it is that of a group.
  [[nodiscard]] bool is_known_group(const std::string& key);
  /// Whether it is that of something in an array: a chunk, or a directory of chunks.
  Result<bool> is_in_array(const std::string& key);

  /// The names in a group; none if there is no consolidated metadata, which knows them.
  [[nodiscard]] std::optional<std::set<std::string>> members(const std::string& group) const;
  [[nodiscard]] bool is_v3() const { return is_v3_; }

  // --- of a store that is written

  /// The condition for replacing a file of which get() returned the text. If its state is not known, the file is read
  /// again. EAGAIN if it is another one now, which get() returns from then on.
  Result<remote::WriteCondition> condition_for(const std::string& key);
  /// The file has another state than condition_for() told: get() returns what it is when it is next asked for.
  void forget(const std::string& key);
  /// This program has written a file; none: it has removed it.
  void note_written(const std::string& key, std::optional<std::string> text, const std::string& etag);
  /// Reads again what consolidated metadata says, if there is any, and the files that were written since the last
  /// note_consolidated(): get() returns what these are.
  Result<> renew_consolidated();
  /// The consolidated metadata has what was written.
  void note_consolidated();

 private:
  using Clock = std::chrono::steady_clock;
  using Texts = std::map<std::string, std::string, std::less<>>;
  struct Read {
    std::optional<std::string> text;
    std::string etag;
  };
  [[nodiscard]] Text kept(const std::string& key);
  void keep(const std::string& key, const Text& text);
  [[nodiscard]] const char* consolidated_file() const;
  [[nodiscard]] Result<std::optional<Texts>> parse_consolidated(const std::string& text) const;
  Result<Read> read(const std::string& key);
  void set(const std::string& key, std::optional<std::string> text) CODECFS_REQUIRES(mutex_);

  const std::shared_ptr<remote::ObjectClient> client_;
  const std::string prefix_;
  // set by open()
  bool is_v3_ = false;
  bool is_v2_ = false;
  mutable SharedMutex mutex_{LockRank::object_texts};
  bool is_consolidated_ CODECFS_GUARDED_BY(mutex_) = false;
  Texts all_ CODECFS_GUARDED_BY(mutex_);  // of consolidated metadata
  // The ETags of files that were written, or are about to be; empty: there is no file.
  std::map<std::string, std::string> etags_ CODECFS_GUARDED_BY(mutex_);
  std::set<std::string> written_ CODECFS_GUARDED_BY(mutex_);  // since note_consolidated()
  LruMap<std::string, std::optional<std::string>> read_{size_t{1} << 16, uint64_t{64} << 20};
  LruMap<std::string, Clock::time_point> absent_{size_t{1} << 16};  // files that do not exist; since when that is known
  LruMap<std::string, bool> arrays_{size_t{1} << 16};               // what is_array() found of what has metadata
};

}  // namespace codecfs::zarr
