// Reads external storage without libhdf5, and so without its lock.

#include "backends/hdf5/source/external_storage.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {
namespace {

Result<> read_file(const std::string& path, uint64_t offset, MutableBytes to) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  // Not ENOENT, which would mean that the chunk is not stored.
  if (!fd || fstat(fd.get(), &status) != 0)
    return fail(errno == ENOENT ? EIO : errno, "external file {}: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return fail(EIO, "external file {} is not a regular file", path);
  while (!to.empty()) {
    const ssize_t count = pread(fd.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(errno, "external file {}", path);
    if (count == 0) break;
    to = to.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  std::ranges::fill(to, std::byte{0});
  return {};
}

}  // namespace

Result<ExternalStorage> ExternalStorage::make(hid_t properties, const SourceFile& source) {
  constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
  ExternalStorage storage;
  uint64_t begin = 0;
  const int count = H5Pget_external_count(properties);
  for (unsigned i = 0; i < static_cast<unsigned>(std::max(count, 0)); ++i) {
    std::array<char, 4097> name{};
    off_t offset = 0;
    hsize_t size = 0;
    if (H5Pget_external(properties, i, name.size() - 1, name.data(), &offset, &size) < 0)
      return fail_library(EIO, "the list of external files");
    std::string path = name.data();
    if (!path.starts_with('/')) path = source.prefix_for(path) + "/" + path;
    size = std::min<uint64_t>(size, kLargest - begin);  // the last segment may be unlimited
    if (offset < 0) return fail(EIO, "external file {} is used from {} on", path, offset);
    storage.segments_.push_back({std::move(path), static_cast<uint64_t>(offset), begin, size});
    begin += size;
  }
  return storage;
}

Result<> ExternalStorage::read(uint64_t begin, MutableBytes to) const {
  for (const Segment& segment : segments_) {
    if (to.empty()) break;
    if (begin < segment.begin || begin - segment.begin >= segment.size) continue;
    const uint64_t within = begin - segment.begin;
    const auto size = static_cast<size_t>(std::min<uint64_t>(to.size(), segment.size - within));
    CODECFS_TRY(read_file(segment.path, segment.offset + within, to.first(size)));
    to = to.subspan(size);
    begin += size;
  }
  if (!to.empty()) return fail(EIO, "the external files end {} bytes before the data does", to.size());
  return {};
}

}  // namespace codecfs::hdf5
