#include "backends/zarr/source/recode.h"

#include <algorithm>
#include <new>
#include <vector>

#include "backends/zarr/source/chunk_listing.h"
#include "backends/zarr/source/hierarchy.h"
#include "backends/zarr/store/directory_writer.h"
#include "base/parallel.h"

namespace codecfs::zarr {
namespace {

constexpr uint64_t kBuffers = 4;                       // memory of a thread, in chunk sizes
constexpr uint64_t kMaxOtherFile = uint64_t{1} << 30;  // maximum size of a file that is not a chunk
constexpr mode_t kPermissions = 07777;

class ChunkRecoder {
 public:
  ChunkRecoder(const Store& source, const OpenArray& array, const Chain& chain, NewDirectory& target,
               Progress& progress)
      : source_(source), array_(array), chain_(chain), target_(target), progress_(progress) {}

  Result<> run() {
    CODECFS_ASSIGN(numbers_, list_chunks(source_, "", files_, array_.array.keys));
    progress_.total = numbers_.size();
    const uint64_t chunk = array_.array.variable.chunk_bytes.value_or(kAssumedChunkBytes);
    const ParallelOptions options{
        .call_bytes = kBuffers * chunk,
        .cancelled = progress_.cancelled,
        .cancelled_reason = fmt::format("{}: its filters were not changed: it was cancelled", called(array_.key)),
        .memory_reason = fmt::format("{}: no memory to change its filters", called(array_.key))};
    return parallel_for(numbers_.size(), options, [this](uint64_t i) -> Result<> {
      CODECFS_TRY(recode(array_.array.keys.name_of(files_, numbers_[i])));
      ++progress_.done;
      return {};
    });
  }

 private:
  Result<> recode(const std::string& name) {
    const std::string key = join_key(array_.key, name);
    CODECFS_ASSIGN(const auto status, source_.stat(name));
    CODECFS_ASSIGN(auto stored, source_.read(name, array_.max_stored));
    if (!status || !stored) return fail(EIO, "{}: was removed while it was read", key);
    CODECFS_ASSIGN(const Buffer chunk, undo_filters(array_, key, std::move(*stored)));
    CODECFS_ASSIGN(const StoredChunk encoded, apply_filters(chain_.pipeline, key, chunk.bytes(), array_.max_stored));
    return target_.write(name, encoded.bytes, status->st_mode & kPermissions);
  }

  const Store& source_;
  const OpenArray& array_;
  const ChunkGrid& files_ = array_.array.variable.grid;
  const Chain& chain_;
  NewDirectory& target_;
  Progress& progress_;
  std::vector<uint64_t> numbers_;
};

/// Whether a key in the array's directory has the form of a chunk name, within the grid or not.
bool looks_like_chunk(std::string_view key, const Array& array) {
  const ChunkKeys& keys = array.keys;
  const size_t rank = array.variable.grid.rank();
  if (keys.has_prefix) {
    if (rank == 0) return key == "c";
    if (key.size() < 2 || key[0] != 'c' || key[1] != keys.separator) return false;
    key.remove_prefix(2);
  }
  size_t numbers = 0;
  for (size_t start = 0; start <= key.size(); ++numbers) {
    const size_t end = std::min(key.find(keys.separator, start), key.size());
    const std::string_view number = key.substr(start, end - start);
    if (number.empty() || !std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; })) return false;
    start = end + 1;
  }
  return numbers == std::max<size_t>(rank, 1);
}

class FileCopier {
 public:
  FileCopier(const Store& source, const OpenArray& array, std::string_view metadata_file, NewDirectory& target)
      : source_(source), array_(array), metadata_file_(metadata_file), target_(target) {}

  Result<> copy_below(const std::string& directory) {
    return source_.for_each(directory, [&](const char* name, Store::EntryType) -> Result<> {
      if (is_temporary_name(name) || (directory.empty() && name == metadata_file_)) return {};
      return copy(join_key(directory, name));
    });
  }

 private:
  Result<> copy(const std::string& key) {
    CODECFS_ASSIGN(const auto status, source_.stat(key));
    if (!status) return cannot_copy(key, "is a dangling link");
    const mode_t mode = status->st_mode & kPermissions;
    if (S_ISDIR(status->st_mode)) {
      if (source_.passes_link(key)) return cannot_copy(key, "is a link to a directory");
      CODECFS_TRY(target_.make_directory(key, mode));
      return copy_below(key);
    }
    if (looks_like_chunk(key, array_.array)) return {};
    if (!S_ISREG(status->st_mode)) return cannot_copy(key, "is not a file");
    if (static_cast<uint64_t>(status->st_size) > kMaxOtherFile) return cannot_copy(key, "is not Zarr's, and is large");
    CODECFS_ASSIGN(const auto content, source_.read(key, kMaxOtherFile));
    if (!content) return fail(EIO, "{}: was removed while it was copied", join_key(array_.key, key));
    return target_.write(key, content->bytes(), mode);
  }

  [[nodiscard]] std::unexpected<Error> cannot_copy(const std::string& key, const char* what) const {
    return fail(EOPNOTSUPP, "{}: {}: move it out of the array's directory first", join_key(array_.key, key), what);
  }

  const Store& source_;
  const OpenArray& array_;
  const std::string_view metadata_file_;
  NewDirectory& target_;
};

}  // namespace

Result<> recode_chunks(const Store& source, const OpenArray& array, const Chain& chain, NewDirectory& target,
                       Progress& progress) {
  return ChunkRecoder(source, array, chain, target, progress).run();
}

Result<> copy_other_files(const Store& source, const OpenArray& array, const char* metadata_file,
                          const std::string& metadata, NewDirectory& target) try {
  CODECFS_ASSIGN(const auto status, source.stat(metadata_file));
  CODECFS_TRY(target.write(metadata_file, bytes_of(metadata), status ? status->st_mode & kPermissions : array.mode));
  return FileCopier(source, array, metadata_file, target).copy_below("");
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to change its filters", called(array.key));
}

}  // namespace codecfs::zarr
