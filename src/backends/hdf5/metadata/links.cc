#include "backends/hdf5/metadata/links.h"

#include <algorithm>
#include <exception>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {
namespace {

herr_t collect_link(hid_t group, const char* name, const RawLinkInfo* info, void* to) {
  try {
    static_cast<std::vector<Link>*>(to)->push_back({name, link_info(group, *info)});
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

}  // namespace

bool is_link_name(std::string_view name) {
  return !name.empty() && name != "." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

std::vector<std::string_view> components_of(std::string_view path) {
  std::vector<std::string_view> components;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view component = path.substr(0, slash);
    if (!component.empty() && component != ".") components.push_back(component);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return components;
}

std::string_view netcdf_name(std::string_view link_name) {
  if (link_name.size() > kNonCoordinate.size() && link_name.starts_with(kNonCoordinate))
    link_name.remove_prefix(kNonCoordinate.size());
  return link_name;
}

Result<std::vector<Link>> links_of(hid_t group) {
  std::vector<Link> links;
  const Handle plist(H5Gget_create_plist(group));
  unsigned flags = 0;
  const bool ordered = H5Pget_link_creation_order(plist.get(), &flags) >= 0 && (flags & H5P_CRT_ORDER_TRACKED) != 0;
  if (iterate_links(group, ordered ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME, H5_ITER_INC, collect_link, &links) < 0)
    return fail_library(EIO, "the links of a group cannot be listed");
  return links;
}

Result<std::string> link_value(hid_t group, const Link& link) {
  std::string value(link.info.text_size, '\0');
  if (link.info.text_size == 0) return value;
  if (H5Lget_val(group, link.name.c_str(), value.data(), value.size(), H5P_DEFAULT) < 0)
    return fail_library(EIO, "link \"{}\"", link.name);
  return value;
}

std::string path_of(hid_t file, uint64_t address) {
  const Handle handle(open_object(file, address));
  const ssize_t size = handle ? H5Iget_name(handle.get(), nullptr, 0) : 0;
  if (size <= 0) return {};
  std::string path(static_cast<size_t>(size) + 1, '\0');
  H5Iget_name(handle.get(), path.data(), path.size());
  path.pop_back();
  return path;
}

}  // namespace codecfs::hdf5
