#include "backends/hdf5/kept_space.h"

#include <algorithm>
#include <functional>

#include "backends/hdf5/handle.h"
#include "backends/hdf5/hdf5_version.h"
#include "backends/hdf5/library_lock.h"

namespace codecfs::hdf5 {
namespace {

constexpr size_t kMaxHoles = 32;
constexpr hsize_t kMinHole = hsize_t{4} << 10;  // bytes; a dataset costs some hundred itself
constexpr ssize_t kMaxListed = ssize_t{1} << 20;

// The largest holes among raw data, largest first. Others, such as metadata, are small.
std::vector<H5F_sect_info_t> largest_holes(hid_t file) {
  const ssize_t count = H5Fget_free_sections(file, H5FD_MEM_DRAW, 0, nullptr);
  if (count <= 0 || count > kMaxListed) return {};
  std::vector<H5F_sect_info_t> sections(static_cast<size_t>(count));
  const ssize_t listed = H5Fget_free_sections(file, H5FD_MEM_DRAW, sections.size(), sections.data());
  sections.resize(static_cast<size_t>(std::clamp<ssize_t>(listed, 0, count)));
  std::erase_if(sections, [](const H5F_sect_info_t& section) { return section.size < kMinHole; });
  std::ranges::sort(sections, std::greater(), &H5F_sect_info_t::size);
  if (sections.size() > kMaxHoles) sections.resize(kMaxHoles);
  return sections;
}

}  // namespace

Result<> KeptSpace::take(hid_t file) {
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE));
  if (!properties || H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY) < 0 ||
      H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER) < 0)
    return fail_library(EIO, "the properties of a dataset");
  const Handle creation(H5Fget_create_plist(file));
  hsize_t user_block = 0;
  if (!creation || H5Pget_userblock(creation.get(), &user_block) < 0) return fail_library(EIO, "its user block");
  const std::vector<H5F_sect_info_t> holes = largest_holes(file);
  for (const H5F_sect_info_t& hole : holes) {
    const Handle space(H5Screate_simple(1, &hole.size, nullptr));
    const Handle dataset(H5Dcreate_anon(file, H5T_STD_U8LE, space.get(), properties.get(), H5P_DEFAULT));
    ObjectInfo info;
    if (!dataset || !object_info(dataset.get(), info)) return fail_library(EIO, "keeping its free space");
    // One that lies elsewhere goes when it is closed. Holes are told from the end of the user block.
    const haddr_t at = H5Dget_offset(dataset.get());
    if (at < user_block || std::ranges::find(holes, at - user_block, &H5F_sect_info_t::addr) == holes.end()) continue;
    if (H5Oincr_refcount(dataset.get()) < 0) return fail_library(EIO, "keeping its free space");
    datasets_.push_back(info.address);
  }
  return {};
}

Result<> KeptSpace::release(hid_t file) {
  for (const uint64_t address : datasets_) {
    Handle dataset(open_object(file, address));
    if (!dataset || H5Odecr_refcount(dataset.get()) < 0 || !dataset.close())
      return fail_library(EIO, "giving back its free space");
  }
  datasets_.clear();
  return {};
}

}  // namespace codecfs::hdf5
