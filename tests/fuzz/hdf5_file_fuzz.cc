// Any bytes as an HDF5 file, through the backend: everything in it is listed and some of its chunks are read. libhdf5
// may crash only in the process that checks accesses first; this process returns results or errors with a reason.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include "backends/api/processes.h"
#include "backends/hdf5/hdf5_source.h"
#include "base/log.h"
#include "require.h"

namespace {

using namespace codecfs;

constexpr size_t kMaxEntries = 200;
constexpr int kMaxDepth = 8;

template <class T>
bool good(const Result<T>& result) {
  if (!result) require(result.error().code != 0 && !result.error().reason.empty(), "an error has a reason");
  return result.has_value();
}

void read_variable(Source& source, ObjectId id) {
  const auto variable = source.variable(id);
  if (!good(variable)) return;
  const auto numbers = source.stored_chunks(id, 0, 4);
  if (!good(numbers)) return;
  for (const uint64_t number : *numbers) {
    (void)good(source.locate(id, number));
    const auto chunk = source.read_chunk(id, number);
    if (good(chunk) && (*variable)->chunk_bytes)
      require(chunk->size() == *(*variable)->chunk_bytes, "a chunk has the size that it is to have");
  }
}

void read_group(Source& source, ObjectId id, int depth, size_t& seen) {
  (void)good(source.group_attributes(id));
  const auto entries = source.list(id);
  if (!good(entries)) return;
  for (const Entry& entry : *entries) {
    if (++seen > kMaxEntries) return;
    require(!entry.name.empty() && entry.name.find('/') == std::string::npos, "a name is a file name");
    if (entry.kind == EntryKind::variable) read_variable(source, entry.object);
    if (entry.kind == EntryKind::group && depth < kMaxDepth) read_group(source, entry.object, depth + 1, seen);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = [] {
    log::set_level(log::Level::error);
    prepare_sources();
    std::string name = std::filesystem::temp_directory_path() / "codecfs-fuzz-XXXXXX";
    require(::mkdtemp(name.data()) != nullptr, "a directory");
    return name + "/file.h5";
  }();
  {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    require(fd && ::write(fd.get(), data, size) == static_cast<ssize_t>(size), "a file");
  }
  const auto source = open_hdf5(path);
  if (!good(source)) return 0;
  size_t seen = 0;
  read_group(**source, (*source)->root().object, 0, seen);
  return 0;
}
