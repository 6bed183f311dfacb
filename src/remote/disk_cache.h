#pragma once
// A directory with parts of objects, which all processes of one user share. Thread-safe.
//
//   DIR/HASH of the object's name/state                   the ETag, size and time of its latest state
//                                 /HASH of the ETag-OFFSET-SIZE    bytes of that state, after a header with checksums
//   DIR/HASH of a directory's name/HASH of the name of a part      of any object in it: its state and its bytes, after
//                                                                  a header with checksums
//
// Files are written aside and renamed. Whatever is damaged, of another state or of another user is not used: the cache
// may be deleted or lose files at any time. What was not used for longest is deleted where it has too many bytes or
// files.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "remote/object_client.h"
#include "remote/range_plan.h"

namespace codecfs::remote {

class DiskCache {
 public:
  /// Makes the directory if it does not exist. `most_bytes`: of all files. EACCES if others may write it or it belongs
  /// to another user; the errors of the system calls.
  static Result<std::shared_ptr<DiskCache>> open(const std::string& directory, uint64_t most_bytes);

  /// Of all files together: so many are listed in less than a second, when the cache is opened.
  static constexpr uint64_t kMaxFiles = 200'000;

  /// What is cached of one object.
  class Object;
  /// `identity`: the server, the bucket and the key. Null if there is no directory for it.
  std::unique_ptr<Object> object(const std::string& identity);

  /// A part of one of the many small objects of a directory, in the state that it had. `directory`: the server, the
  /// bucket and the key before the last "/". `name`: of the object and of the part. None if it is not there.
  [[nodiscard]] std::optional<ObjectPart> find_part(const std::string& directory, const std::string& name) const;
  /// Of each name, the last is kept. Parts without an ETag or without bytes are not.
  void store_part(const std::string& directory, const std::string& name, const ObjectPart& part);

 private:
  DiskCache(UniqueFd directory, uint64_t most_bytes) : directory_(std::move(directory)), most_bytes_(most_bytes) {}
  void note_written(uint64_t bytes);
  void trim();

  const UniqueFd directory_;
  const uint64_t most_bytes_;
  std::atomic<uint64_t> written_ = 0;  // bytes, since the last trim()
  Mutex trimming_;
};

class DiskCache::Object {
 public:
  Object(DiskCache& cache, UniqueFd folder) : cache_(cache), folder_(std::move(folder)) {}

  struct State {
    std::string etag;
    uint64_t size = 0;     // bytes
    int64_t modified = 0;  // Unix time
  };
  /// The latest state that was used; none if it is not known.
  [[nodiscard]] std::optional<State> state() const;
  /// Only this state is cached from now on.
  void use(const State& state);
  /// All bytes of a range of the state, if they are there.
  std::optional<Buffer> find(const ByteRange& range);
  void store(const ByteRange& range, Bytes bytes);

 private:
  void list() CODECFS_REQUIRES(mutex_);
  [[nodiscard]] std::vector<ByteRange> files_of(const ByteRange& range) const CODECFS_REQUIRES(mutex_);
  [[nodiscard]] std::string name_of(const ByteRange& range) const;
  [[nodiscard]] std::optional<Buffer> read(const ByteRange& range) const;

  DiskCache& cache_;
  const UniqueFd folder_;
  std::string prefix_;     // of the names of files of the state
  uint64_t state_id_ = 0;  // of their headers
  Mutex mutex_;
  std::map<uint64_t, uint64_t> ranges_ CODECFS_GUARDED_BY(mutex_);  // sizes of files, by offset; the larger one
  timespec listed_ CODECFS_GUARDED_BY(mutex_){};                    // time of the folder then
};

}  // namespace codecfs::remote
