#include "backends/hdf5/format/object_walk.h"

#include <exception>

#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {
namespace {

template <class Item>
struct Collected {
  std::vector<Item> items;
  bool no_memory = false;
};

herr_t collect_stored_link(hid_t group, const char* name, const RawLinkInfo* info, void* data) {
  auto& links = *static_cast<Collected<StoredLink>*>(data);
  try {
    links.items.push_back({name, link_info(group, *info), info->cset});
    return 0;
  } catch (const std::exception&) {
    links.no_memory = true;
    return -1;
  }
}

}  // namespace

Result<std::vector<StoredLink>> stored_links(hid_t group) {
  const Handle properties(H5Gget_create_plist(group));
  unsigned flags = 0;
  if (!properties || H5Pget_link_creation_order(properties.get(), &flags) < 0)
    return fail_library(EIO, "the properties of a group");
  const H5_index_t index = (flags & H5P_CRT_ORDER_TRACKED) != 0 ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  Collected<StoredLink> links;
  if (iterate_links(group, index, H5_ITER_INC, collect_stored_link, &links) < 0) {
    if (links.no_memory) return fail(ENOMEM, "no memory for the list of links");
    return fail_library(EIO, "the links of a group cannot be listed");
  }
  return std::move(links.items);
}

Result<Handle> creation_properties_of(hid_t object) {
  Handle properties;
  switch (H5Iget_type(object)) {
    case H5I_GROUP: properties = Handle(H5Gget_create_plist(object)); break;
    case H5I_DATASET: properties = Handle(H5Dget_create_plist(object)); break;
    case H5I_DATATYPE: properties = Handle(H5Tget_create_plist(object)); break;
    default: return fail(EIO, "an object that is not a group, dataset or type");
  }
  if (!properties) return fail_library(EIO, "its properties");
  return properties;
}

}  // namespace codecfs::hdf5
