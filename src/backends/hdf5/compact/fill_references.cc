#include "backends/hdf5/compact/fill_references.h"

#include <algorithm>

#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {

Result<std::unique_ptr<FillWithReferences>> FillWithReferences::read(hid_t properties, hid_t type) {
  std::unique_ptr<FillWithReferences> fill(new FillWithReferences);
  fill->type_ = Handle(H5Tcopy(type));
  fill->space_ = Handle(H5Screate(H5S_SCALAR));
  if (!fill->type_ || !fill->space_) return fail_library(EIO, "its type");
  CODECFS_ASSIGN(fill->layout_, ValueLayout::of(fill->type()));
  if (!fill->layout_.references) return nullptr;
  H5D_fill_value_t kind = H5D_FILL_VALUE_ERROR;
  if (H5Pfill_value_defined(properties, &kind) < 0) return fail_library(EIO, "its fill value");
  if (kind != H5D_FILL_VALUE_USER_DEFINED) return nullptr;
  Values& value = fill->value_.emplace(fill->type(), fill->space_.get(), fill->layout_, 1);
  if (H5Pget_fill_value(properties, fill->type(), value.data()) < 0) return fail_library(EIO, "its fill value");
  value.were_read();
  if (std::ranges::all_of(value.bytes(), [](std::byte byte) { return byte == std::byte{0}; })) return nullptr;
  return fill;
}

Result<std::vector<uint64_t>> fill_targets(hid_t dataset, const ReferenceMap& references) {
  const Handle properties(H5Dget_create_plist(dataset));
  const Handle type(H5Dget_type(dataset));
  if (!properties || !type) return fail_library(EIO, "its properties");
  CODECFS_ASSIGN(const auto fill, FillWithReferences::read(properties.get(), type.get()));
  if (!fill) return std::vector<uint64_t>();
  auto targets = references.targets(fill->layout(), fill->bytes());
  if (!targets) return fail(targets.error().code, "its fill value: {}", targets.error().reason);
  return targets;
}

Result<> translate_fill(hid_t properties, hid_t type, const ReferenceMap& references) {
  CODECFS_ASSIGN(const auto fill, FillWithReferences::read(properties, type));
  if (!fill) return {};
  const Result<> translated = references.translate(fill->layout(), fill->bytes());
  if (!translated) return fail(translated.error().code, "its fill value: {}", translated.error().reason);
  if (H5Pset_fill_value(properties, fill->type(), fill->bytes().data()) < 0)
    return fail_library(EIO, "the fill value of its copy");
  return {};
}

}  // namespace codecfs::hdf5
