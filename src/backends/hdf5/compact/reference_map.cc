#include "backends/hdf5/compact/reference_map.h"

#include <algorithm>
#include <cstring>

#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {
namespace {

using Kind = ValueLayout::Kind;

bool is_zero(const std::byte* value, size_t size) {
  return std::all_of(value, value + size, [](std::byte byte) { return byte == std::byte{0}; });
}

/// Calls visit(kind, value) for each reference in `values`, until it fails.
template <class Visit>
Result<> for_each_reference(const ValueLayout& layout, MutableBytes values, const Visit& visit) {
  if (!layout.references) return {};
  for (size_t at = 0; at + layout.size <= values.size(); at += layout.size) {
    std::byte* const value = values.data() + at;
    switch (layout.kind) {
      case Kind::object_reference:
      case Kind::region_reference: CODECFS_TRY(visit(layout.kind, value)); break;
      case Kind::array: CODECFS_TRY(for_each_reference(layout.parts[0].layout[0], {value, layout.size}, visit)); break;
      case Kind::sequence: {
        hvl_t sequence;
        std::memcpy(&sequence, value, sizeof sequence);
        if (sequence.p == nullptr) break;
        const ValueLayout& element = layout.parts[0].layout[0];
        CODECFS_TRY(
            for_each_reference(element, {static_cast<std::byte*>(sequence.p), sequence.len * element.size}, visit));
        break;
      }
      case Kind::compound:
        for (const auto& part : layout.parts)
          CODECFS_TRY(for_each_reference(part.layout[0], {value + part.offset, part.layout[0].size}, visit));
        break;
      case Kind::plain:
      case Kind::text: break;
    }
  }
  return {};
}

/// The dataset to which a region reference that is not null refers. EOPNOTSUPP.
Result<Handle> target_of_region(hid_t file, const std::byte* value) {
  Handle target(H5Rdereference2(file, H5P_DEFAULT, H5R_DATASET_REGION, value));
  if (!target) return fail_library(EOPNOTSUPP, "it refers to a region of a dataset that no longer exists");
  return target;
}

/// The address to which an object reference refers; 0 if it is null.
uint64_t address_in(const std::byte* value) {
  hobj_ref_t address = 0;
  std::memcpy(&address, value, sizeof address);
  return address;
}

}  // namespace

std::optional<uint64_t> ReferenceMap::find(uint64_t from_address) const {
  const auto found = addresses_.find(from_address);
  if (found == addresses_.end()) return std::nullopt;
  return found->second;
}

Result<> ReferenceMap::translate(const ValueLayout& layout, MutableBytes values) const {
  return for_each_reference(layout, values, [this](Kind kind, std::byte* value) {
    return kind == Kind::object_reference ? translate_object(value) : translate_region(value);
  });
}

Result<std::vector<uint64_t>> ReferenceMap::targets(const ValueLayout& layout, MutableBytes values) const {
  std::vector<uint64_t> addresses;
  CODECFS_TRY(for_each_reference(layout, values, [&](Kind kind, std::byte* value) -> Result<> {
    if (kind == Kind::object_reference) {
      if (const uint64_t address = address_in(value); address != 0) addresses.push_back(address);
      return {};
    }
    if (is_zero(value, sizeof(hdset_reg_ref_t))) return {};
    CODECFS_ASSIGN(const Handle target, target_of_region(from_, value));
    ObjectInfo info;
    if (!object_info(target.get(), info)) return fail_library(EIO, "the dataset of a region");
    addresses.push_back(info.address);
    return {};
  }));
  return addresses;
}

Result<> ReferenceMap::translate_object(std::byte* value) const {
  const uint64_t address = address_in(value);
  if (address == 0) return {};
  const auto translated = find(address);
  if (!translated) return fail(EOPNOTSUPP, "it refers to an object at {} that no longer exists", address);
  const hobj_ref_t made = *translated;
  std::memcpy(value, &made, sizeof made);
  return {};
}

Result<> ReferenceMap::translate_region(std::byte* value) const {
  if (is_zero(value, sizeof(hdset_reg_ref_t))) return {};
  CODECFS_ASSIGN(const Handle target, target_of_region(from_, value));
  ObjectInfo info;
  if (!object_info(target.get(), info)) return fail_library(EIO, "the dataset of a region");
  const Handle region(H5Rget_region(from_, H5R_DATASET_REGION, value));
  if (!region) return fail_library(EIO, "the region that it refers to");
  const auto translated = find(info.address);
  if (!translated) return fail(EOPNOTSUPP, "it refers to a region of a dataset at {} that has no link", info.address);
  const Handle copy(open_object(to_, *translated));
  hdset_reg_ref_t made{};
  if (!copy || H5Rcreate(&made, copy.get(), ".", H5R_DATASET_REGION, region.get()) < 0)
    return fail_library(EIO, "a reference to a region");
  std::memcpy(value, &made, sizeof made);
  return {};
}

}  // namespace codecfs::hdf5
