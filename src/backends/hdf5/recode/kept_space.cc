#include "backends/hdf5/recode/kept_space.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {
namespace {

// so that their addresses fit into an extended attribute on all filesystems
constexpr size_t kMaxHoles = 64;
constexpr hsize_t kMinHole = hsize_t{4} << 10;  // bytes; a dataset itself takes some hundred
constexpr ssize_t kMaxListed = ssize_t{1} << 20;
constexpr char kTag[] = "codecfs: free space";  // name in the type of such a dataset, which identifies it

// The largest free blocks of raw data, largest first. Those of metadata are small.
std::vector<H5F_sect_info_t> largest_holes(hid_t file, size_t limit) {
  const ssize_t count = H5Fget_free_sections(file, H5FD_MEM_DRAW, 0, nullptr);
  if (count <= 0 || count > kMaxListed) return {};
  std::vector<H5F_sect_info_t> sections(static_cast<size_t>(count));
  const ssize_t listed = H5Fget_free_sections(file, H5FD_MEM_DRAW, sections.size(), sections.data());
  sections.resize(static_cast<size_t>(std::clamp<ssize_t>(listed, 0, count)));
  std::erase_if(sections, [](const H5F_sect_info_t& section) { return section.size < kMinHole; });
  std::ranges::sort(sections, std::greater(), &H5F_sect_info_t::size);
  if (sections.size() > limit) sections.resize(limit);
  return sections;
}

bool has_our_type(hid_t dataset) {
  const Handle type(H5Dget_type(dataset));
  if (!type || H5Tget_class(type.get()) != H5T_OPAQUE || H5Tget_size(type.get()) != 1) return false;
  const auto free_tag = [](char* tag) { H5free_memory(tag); };
  const std::unique_ptr<char, decltype(free_tag)> tag(H5Tget_tag(type.get()), free_tag);
  return tag && std::string_view(tag.get()) == kTag;
}

bool is_one_of_ours(hid_t object, uint64_t address) {
  ObjectInfo info;
  if (H5Iget_type(object) != H5I_DATASET || !object_info(object, info) || info.address != address) return false;
  const Handle creation(H5Dget_create_plist(object));
  return info.references == 1 && info.attributes == 0 && H5Pget_layout(creation.get()) == H5D_CONTIGUOUS &&
         H5Pget_external_count(creation.get()) == 0 && H5Dget_offset(object) != HADDR_UNDEF && has_our_type(object);
}

}  // namespace

Result<> KeptSpace::take(hid_t file) {
  const Handle creation(H5Fget_create_plist(file));
  hsize_t user_block = 0;
  H5F_fspace_strategy_t strategy{};
  hbool_t persists = 0;
  hsize_t threshold = 0;
  if (!creation || H5Pget_userblock(creation.get(), &user_block) < 0 ||
      H5Pget_file_space_strategy(creation.get(), &strategy, &persists, &threshold) < 0)
    return fail_library(EIO, "its user block");
  if (persists || kept_.datasets.size() >= kMaxHoles) return {};
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  if (!properties || H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY) < 0 ||
      H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER) < 0 || H5Pset_obj_track_times(properties.get(), 0) < 0)
    return fail_library(EIO, "the properties of a dataset");
  const Handle type(H5Tcreate(H5T_OPAQUE, 1));
  if (!type || H5Tset_tag(type.get(), kTag) < 0) return fail_library(EIO, "the type of a dataset");
  const std::vector<H5F_sect_info_t> holes = largest_holes(file, kMaxHoles - kept_.datasets.size());
  for (const H5F_sect_info_t& hole : holes) {
    const Handle space(H5Screate_simple(1, &hole.size, nullptr));
    const Handle dataset(H5Dcreate_anon(file, type.get(), space.get(), properties.get(), H5P_DEFAULT));
    ObjectInfo info;
    if (!dataset || !object_info(dataset.get(), info)) return fail_library(EIO, "keeping its free space");
    // A dataset at another address is removed at close. Addresses of free blocks exclude the user block.
    const haddr_t at = H5Dget_offset(dataset.get());
    if (at < user_block || std::ranges::find(holes, at - user_block, &H5F_sect_info_t::addr) == holes.end()) continue;
    if (H5Oincr_refcount(dataset.get()) < 0) return fail_library(EIO, "keeping its free space");
    kept_.datasets.push_back(info.address);
    kept_.bytes += hole.size;
  }
  return {};
}

Result<> KeptSpace::release(hid_t file) const {
  for (const uint64_t address : kept_.datasets) {
    Handle dataset(open_object(file, address));
    if (!dataset || !is_one_of_ours(dataset.get(), address)) continue;
    if (H5Odecr_refcount(dataset.get()) < 0 || !dataset.close()) return fail_library(EIO, "giving back its free space");
  }
  return {};
}

}  // namespace codecfs::hdf5
