#include "backends/hdf5/inventory.h"

#include <deque>
#include <string>
#include <unordered_set>
#include <vector>

#include "backends/hdf5/attribute_values.h"
#include "backends/hdf5/chunk_index.h"
#include "backends/hdf5/dataset_copy.h"
#include "backends/hdf5/handle.h"
#include "backends/hdf5/hdf5_version.h"
#include "backends/hdf5/library_lock.h"
#include "backends/hdf5/object_walk.h"

namespace codecfs::hdf5 {
namespace {

/// Meets objects by hard links from the root on and, of committed types, by what has them.
class InventoryWalk {
 public:
  InventoryWalk(hid_t file, uint64_t file_bytes) : file_(file), file_bytes_(file_bytes) {}

  Result<Inventory> take() {
    const Handle root(H5Gopen2(file_, "/", H5P_DEFAULT));
    ObjectInfo info;
    if (!root || !object_info(root.get(), info)) return fail_library(EIO, "the root group");
    meet(info.address);
    while (!found_.empty()) {
      const uint64_t address = found_.front();
      found_.pop_front();
      CODECFS_TRY(count(address));
    }
    return inventory_;
  }

 private:
  void meet(uint64_t address) {
    if (known_.insert(address).second) found_.push_back(address);
  }

  Result<> meet_type(const Handle& type) {
    const htri_t committed = H5Tcommitted(type.get());
    ObjectInfo info;
    if (committed < 0 || (committed > 0 && !object_info(type.get(), info))) return fail_library(EIO, "a type");
    if (committed > 0) meet(info.address);
    return {};
  }

  Result<> count(uint64_t address) {
    const Handle object(open_object(file_, address));
    if (!object) return fail_library(EIO, "an object at {}", address);
    CODECFS_ASSIGN(const std::vector<std::string> names, attribute_names(object.get()));
    inventory_.attributes += names.size();
    for (const std::string& name : names) {
      const Handle attribute(H5Aopen(object.get(), name.c_str(), H5P_DEFAULT));
      CODECFS_TRY(meet_type(Handle(H5Aget_type(attribute.get()))));
    }
    switch (H5Iget_type(object.get())) {
      case H5I_GROUP: return count_links(object);
      case H5I_DATASET: return count_data(object);
      default: ++inventory_.types; return {};
    }
  }

  Result<> count_links(const Handle& group) {
    ++inventory_.groups;
    CODECFS_ASSIGN(const std::vector<StoredLink> links, stored_links(group.get()));
    inventory_.links += links.size();
    for (const StoredLink& link : links) {
      if (link.info.type == H5L_TYPE_HARD) meet(link.info.address);
    }
    return {};
  }

  Result<> count_data(const Handle& dataset) {
    ++inventory_.datasets;
    CODECFS_TRY(meet_type(Handle(H5Dget_type(dataset.get()))));
    CODECFS_ASSIGN(const bool made_anew, data_needs_library(dataset.get()));
    if (!made_anew) {
      inventory_.bytes += H5Dget_storage_size(dataset.get());
      CODECFS_ASSIGN(const uint64_t checksum, checksum_of_storage(dataset.get(), file_bytes_));
      inventory_.checksum += checksum;
    }
    CODECFS_ASSIGN(const Handle properties, creation_properties_of(dataset.get()));
    if (H5Pget_layout(properties.get()) != H5D_CHUNKED) return {};
    CODECFS_ASSIGN(const uint64_t chunks, count_stored_chunks(dataset.get()));
    inventory_.chunks += chunks;
    return {};
  }

  hid_t file_;
  uint64_t file_bytes_;
  Inventory inventory_;
  std::unordered_set<uint64_t> known_;
  std::deque<uint64_t> found_;
};

}  // namespace

Result<Inventory> take_inventory(hid_t file, uint64_t file_bytes) { return InventoryWalk(file, file_bytes).take(); }

}  // namespace codecfs::hdf5
