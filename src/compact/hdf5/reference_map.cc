#include "compact/hdf5/reference_map.h"

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

}  // namespace

std::optional<uint64_t> ReferenceMap::find(uint64_t from_address) const {
  const auto found = addresses_.find(from_address);
  if (found == addresses_.end()) return std::nullopt;
  return found->second;
}

Result<> ReferenceMap::translate(const ValueLayout& layout, MutableBytes values) const {
  if (!layout.references) return {};
  for (size_t at = 0; at + layout.size <= values.size(); at += layout.size)
    CODECFS_TRY(translate_value(layout, values.data() + at));
  return {};
}

Result<> ReferenceMap::translate_value(const ValueLayout& layout, std::byte* value) const {
  if (!layout.references) return {};
  switch (layout.kind) {
    case Kind::object_reference: return translate_object(value);
    case Kind::region_reference: return translate_region(value);
    case Kind::array: return translate(layout.parts[0].layout[0], {value, layout.size});
    case Kind::sequence: {
      hvl_t sequence;
      std::memcpy(&sequence, value, sizeof sequence);
      if (sequence.p == nullptr) return {};
      const ValueLayout& element = layout.parts[0].layout[0];
      return translate(element, {static_cast<std::byte*>(sequence.p), sequence.len * element.size});
    }
    case Kind::compound:
      for (const auto& part : layout.parts) CODECFS_TRY(translate_value(part.layout[0], value + part.offset));
      return {};
    case Kind::plain:
    case Kind::text: return {};
  }
  return {};
}

Result<> ReferenceMap::translate_object(std::byte* value) const {
  hobj_ref_t address = 0;
  std::memcpy(&address, value, sizeof address);
  if (address == 0) return {};
  const auto translated = find(address);
  if (!translated) return fail(EOPNOTSUPP, "it refers to an object at {} that no longer exists", address);
  address = *translated;
  std::memcpy(value, &address, sizeof address);
  return {};
}

Result<> ReferenceMap::translate_region(std::byte* value) const {
  if (is_zero(value, sizeof(hdset_reg_ref_t))) return {};
  const Handle target(H5Rdereference2(from_, H5P_DEFAULT, H5R_DATASET_REGION, value));
  ObjectInfo info;
  if (!target || !object_info(target.get(), info))
    return fail_library(EOPNOTSUPP, "it refers to a region of a dataset that no longer exists");
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
