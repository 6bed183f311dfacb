#include "backends/hdf5/compact/linked_objects.h"

#include <fmt/core.h>

#include <deque>
#include <utility>
#include <vector>

#include "backends/hdf5/format/object_walk.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/metadata/attribute_values.h"

namespace codecfs::hdf5 {

Result<std::unordered_map<uint64_t, std::string>> linked_objects(hid_t file) {
  std::unordered_map<uint64_t, std::string> found;
  std::deque<std::pair<uint64_t, std::string>> waiting;
  const auto note = [&](uint64_t address, const std::string& path) {
    if (found.try_emplace(address, path).second) waiting.emplace_back(address, path);
  };
  const Handle root(H5Gopen2(file, "/", H5P_DEFAULT));
  ObjectInfo info;
  if (!root || !object_info(root.get(), info)) return fail_library(EIO, "the root group");
  note(info.address, "");
  while (!waiting.empty()) {
    const auto [address, path] = std::move(waiting.front());
    waiting.pop_front();
    const Handle object(open_object(file, address));
    if (!object) return fail_library(EIO, "{}: it cannot be opened", path);
    if (H5Iget_type(object.get()) != H5I_GROUP) continue;
    CODECFS_ASSIGN(const std::vector<StoredLink> links, stored_links(object.get()));
    for (const StoredLink& link : links)
      if (link.info.type == H5L_TYPE_HARD) note(link.info.address, fmt::format("{}/{}", path, as_utf8(link.name)));
  }
  return found;
}

}  // namespace codecfs::hdf5
