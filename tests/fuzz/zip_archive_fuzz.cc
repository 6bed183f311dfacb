// Any bytes as a zip archive: it is refused with a reason, or every entry is read, with at most its declared size, or
// has an error; and a rewritten archive has the same content.

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <string>

#include "backends/zarr/store/zip_rewrite.h"
#include "backends/zarr/store/zip_tree.h"
#include "base/log.h"
#include "require.h"

namespace {

using namespace codecfs;
using namespace codecfs::zarr;

constexpr uint64_t kLimit = uint64_t{1} << 20;

File file_of(const uint8_t* data, size_t size) {
  File file{.fd = UniqueFd(::memfd_create("archive", MFD_CLOEXEC)), .path = "archive"};
  require(file.fd && real_file_io().write(file, 0, std::as_bytes(std::span(data, size))), "a file");
  return file;
}

using Contents = std::map<std::string, std::string>;

/// Collects the readable content of a tree, and the entries to rewrite it.
void collect(const ZipDirectory& directory, const std::string& path, Contents& contents,
             std::vector<NewZipEntry>& entries) {
  for (const auto& [name, member] : directory.members) {
    require(!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos, "a name is a name");
    if (const auto* below = std::get_if<ZipDirectoryPtr>(&member)) {
      collect(**below, path + name + "/", contents, entries);
      continue;
    }
    const ZipPlace& place = std::get<ZipFilePtr>(member)->place;
    const auto bytes = read_place(place, path + name, kLimit);
    if (!bytes) {
      require(bytes.error().code != 0 && !bytes.error().reason.empty(), "an error has a reason");
      continue;
    }
    require(bytes->size() == size_of(place) && bytes->size() <= kLimit, "a file has the size that it tells");
    contents[path + name] = {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
    entries.push_back({.name = path + name, .bytes = std::get<ArchivedBytes>(place), .mode = 0});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  log::set_level(log::Level::error);
  const auto tree = ZipTree::open({.file = file_of(data, size), .object = nullptr});
  if (!tree) {
    require(tree.error().code != 0 && !tree.error().reason.empty(), "an error has a reason");
    return 0;
  }
  Contents before;
  std::vector<NewZipEntry> entries;
  collect(*(*tree)->top, "", before, entries);
  const File copy = file_of(nullptr, 0);
  const auto written = write_zip(real_file_io(), copy, entries, (*tree)->archive->comment());
  require(written.has_value(), "what was read can be copied");
  const auto again = ZipTree::open({.file = {.fd = UniqueFd(::dup(copy.fd.get())), .path = "copy"}, .object = nullptr});
  require(again.has_value(), "what was written is an archive");
  Contents after;
  entries.clear();
  collect(*(*again)->top, "", after, entries);
  require(after == before, "and holds the same");
  return 0;
}
