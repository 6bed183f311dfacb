#include "backends/hdf5/object_walk.h"

#include <exception>

#include "backends/hdf5/library_lock.h"

namespace codecfs::hdf5 {
namespace {

template <class Item>
struct Collected {
  std::vector<Item> items;
  bool no_memory = false;
};

herr_t collect_link(hid_t group, const char* name, const RawLinkInfo* info, void* data) {
  auto& links = *static_cast<Collected<StoredLink>*>(data);
  try {
    links.items.push_back({name, link_info(group, *info), info->cset});
    return 0;
  } catch (const std::exception&) {
    links.no_memory = true;
    return -1;
  }
}

herr_t collect_attribute(hid_t, const char* name, const H5A_info_t*, void* data) {
  auto& names = *static_cast<Collected<std::string>*>(data);
  try {
    names.items.emplace_back(name);
    return 0;
  } catch (const std::exception&) {
    names.no_memory = true;
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
  if (iterate_links(group, index, collect_link, &links) < 0) {
    if (links.no_memory) return fail(ENOMEM, "no memory for the list of links");
    return fail_library(EIO, "the links of a group cannot be listed");
  }
  return std::move(links.items);
}

Result<std::vector<std::string>> attribute_names(hid_t object) {
  CODECFS_ASSIGN(const Handle properties, creation_properties_of(object));
  unsigned flags = 0;
  if (H5Pget_attr_creation_order(properties.get(), &flags) < 0)
    return fail_library(EIO, "the properties of its attributes");
  const bool ordered = (flags & H5P_CRT_ORDER_TRACKED) != 0;
  Collected<std::string> names;
  hsize_t position = 0;
  if (H5Aiterate2(object, ordered ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME, ordered ? H5_ITER_INC : H5_ITER_NATIVE,
                  &position, collect_attribute, &names) < 0) {
    if (names.no_memory) return fail(ENOMEM, "no memory for the list of attributes");
    return fail_library(EIO, "its attributes cannot be listed");
  }
  return std::move(names.items);
}

Result<Handle> creation_properties_of(hid_t object) {
  Handle properties;
  switch (H5Iget_type(object)) {
    case H5I_GROUP: properties = Handle(H5Gget_create_plist(object)); break;
    case H5I_DATASET: properties = Handle(H5Dget_create_plist(object)); break;
    case H5I_DATATYPE: properties = Handle(H5Tget_create_plist(object)); break;
    default: return fail(EIO, "an object that is no group, dataset or type");
  }
  if (!properties) return fail_library(EIO, "its properties");
  return properties;
}

}  // namespace codecfs::hdf5
