#include "backends/hdf5/wal/kept_space.h"

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

constexpr hsize_t kMinHole = 512;                  // bytes; a dataset itself takes about 300
constexpr hsize_t kMaxHeader = hsize_t{32} << 10;  // bytes; a message of an object header has less than 64 KiB
constexpr hsize_t kAlignment = 8;                  // of the parts of an object header of version 1
constexpr ssize_t kMaxListed = ssize_t{1} << 20;
constexpr char kSpaceTag[] = "codecfs: free space";  // name in the type of such a dataset, which identifies it

// The largest free blocks of raw data or of metadata, largest first.
std::vector<H5F_sect_info_t> largest_holes(hid_t file, H5F_mem_t type, size_t most) {
  const ssize_t count = H5Fget_free_sections(file, type, 0, nullptr);
  if (count <= 0 || count > kMaxListed) return {};
  std::vector<H5F_sect_info_t> sections(static_cast<size_t>(count));
  const ssize_t listed = H5Fget_free_sections(file, type, sections.size(), sections.data());
  sections.resize(static_cast<size_t>(std::clamp<ssize_t>(listed, 0, count)));
  std::erase_if(sections, [](const H5F_sect_info_t& section) { return section.size < kMinHole; });
  std::ranges::sort(sections, std::greater(), &H5F_sect_info_t::size);
  if (sections.size() > most) sections.resize(most);
  return sections;
}

bool has_our_type(hid_t dataset) {
  const Handle type(H5Dget_type(dataset));
  if (!type || H5Tget_class(type.get()) != H5T_OPAQUE || H5Tget_size(type.get()) != 1) return false;
  const auto free_tag = [](char* tag) { H5free_memory(tag); };
  const std::unique_ptr<char, decltype(free_tag)> tag(H5Tget_tag(type.get()), free_tag);
  return tag && std::string_view(tag.get()) == kSpaceTag;
}

bool is_one_of_ours(hid_t object, uint64_t address) {
  ObjectInfo info;
  if (H5Iget_type(object) != H5I_DATASET || !object_info(object, info) || info.address != address) return false;
  const Handle creation(H5Dget_create_plist(object));
  if (info.references != 1 || info.attributes != 0 || !has_our_type(object)) return false;
  if (H5Pget_layout(creation.get()) == H5D_COMPACT) return true;
  return H5Pget_layout(creation.get()) == H5D_CONTIGUOUS && H5Pget_external_count(creation.get()) == 0 &&
         H5Dget_offset(object) != HADDR_UNDEF;
}

Handle make_filler(hid_t file, hid_t type, hid_t properties, hsize_t size) {
  const Handle space(H5Screate_simple(1, &size, nullptr));
  return Handle(H5Dcreate_anon(file, type, space.get(), properties, H5P_DEFAULT));
}

}  // namespace

Result<> KeptSpace::take(hid_t file, size_t most) {
  const Handle creation(H5Fget_create_plist(file));
  hsize_t user_block = 0;
  H5F_fspace_strategy_t strategy{};
  hbool_t persists = 0;
  hsize_t threshold = 0;
  if (!creation || H5Pget_userblock(creation.get(), &user_block) < 0 ||
      H5Pget_file_space_strategy(creation.get(), &strategy, &persists, &threshold) < 0)
    return fail_library(EIO, "its user block");
  if (persists || !kept_.datasets.empty()) return {};
  const Handle type(H5Tcreate(H5T_OPAQUE, 1));
  if (!type || H5Tset_tag(type.get(), kSpaceTag) < 0) return fail_library(EIO, "the type of a dataset");
  CODECFS_TRY(take_raw(file, type.get(), user_block, most));
  return take_metadata(file, type.get(), most);
}

// Raw data of a dataset occupies each hole.
Result<> KeptSpace::take_raw(hid_t file, hid_t type, uint64_t user_block, size_t most) {
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  if (!properties || H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY) < 0 ||
      H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER) < 0 || H5Pset_obj_track_times(properties.get(), 0) < 0)
    return fail_library(EIO, "the properties of a dataset");
  const std::vector<H5F_sect_info_t> holes = largest_holes(file, H5FD_MEM_DRAW, most);
  for (const H5F_sect_info_t& hole : holes) {
    const Handle dataset = make_filler(file, type, properties.get(), hole.size);
    // A dataset at another address is removed at close. Addresses of free blocks exclude the user block.
    const haddr_t at = dataset ? H5Dget_offset(dataset.get()) : HADDR_UNDEF;
    const bool fits =
        at >= user_block && std::ranges::find(holes, at - user_block, &H5F_sect_info_t::addr) != holes.end();
    CODECFS_TRY(keep(dataset.get(), fits, hole.size));
  }
  return {};
}

// The header of a dataset with compact data occupies each hole: libhdf5 uses the smallest one that is large enough.
Result<> KeptSpace::take_metadata(hid_t file, hid_t type, size_t most) {
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  if (!properties || H5Pset_layout(properties.get(), H5D_COMPACT) < 0 ||
      H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER) < 0 || H5Pset_obj_track_times(properties.get(), 0) < 0)
    return fail_library(EIO, "the properties of a dataset");
  // With this much data, the fields of sizes in a header are as wide as with more.
  constexpr hsize_t kData = 1024;
  const uint64_t header = header_bytes(make_filler(file, type, properties.get(), kData).get());
  if (header < kData) return fail_library(EIO, "keeping its free space");
  const hsize_t overhead = header - kData;
  const std::vector<H5F_sect_info_t> holes = largest_holes(file, H5FD_MEM_SUPER, most);
  for (const H5F_sect_info_t& hole : holes) {
    const hsize_t all = std::min(hole.size, kMaxHeader) / kAlignment * kAlignment;
    if (all <= overhead) continue;
    const Handle dataset = make_filler(file, type, properties.get(), all - overhead);
    ObjectInfo info;
    const bool fits = dataset && object_info(dataset.get(), info) &&
                      std::ranges::find(holes, info.address, &H5F_sect_info_t::addr) != holes.end();
    CODECFS_TRY(keep(dataset.get(), fits, all));
  }
  return {};
}

// Without a link, a dataset is removed at close.
Result<> KeptSpace::keep(hid_t dataset, bool fits, uint64_t bytes) {
  ObjectInfo info;
  if (dataset < 0 || !object_info(dataset, info)) return fail_library(EIO, "keeping its free space");
  if (!fits) return {};
  if (H5Oincr_refcount(dataset) < 0) return fail_library(EIO, "keeping its free space");
  kept_.datasets.push_back(info.address);
  kept_.bytes += bytes;
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
