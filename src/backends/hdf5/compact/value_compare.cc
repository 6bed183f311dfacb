#include "backends/hdf5/compact/value_compare.h"

#include <algorithm>
#include <cstring>

#include "backends/hdf5/compact/fill_references.h"
#include "backends/hdf5/compact/value_pieces.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"

namespace codecfs::hdf5 {
namespace {

using Kind = ValueLayout::Kind;

// A box is a chunk, which libhdf5 decodes again for each piece.
constexpr uint64_t kMaxBoxPiece = uint64_t{256} << 20;  // bytes

/// Values of one layout, in memory as H5Dread returns them.
class Comparison {
 public:
  Comparison(hid_t from, hid_t to, const ReferenceMap& references) : from_(from), to_(to), references_(references) {}

  [[nodiscard]] bool same(const ValueLayout& layout, Bytes left, Bytes right) const {
    if (layout.kind == Kind::plain) return std::memcmp(left.data(), right.data(), left.size()) == 0;
    for (size_t at = 0; at + layout.size <= left.size(); at += layout.size)
      if (!same_value(layout, left.data() + at, right.data() + at)) return false;
    return true;
  }

 private:
  template <class T>
  static T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  [[nodiscard]] bool same_value(const ValueLayout& layout, const std::byte* left, const std::byte* right) const {
    switch (layout.kind) {
      case Kind::plain: return std::memcmp(left, right, layout.size) == 0;
      case Kind::text: {
        const char* const a = load<char*>(left);
        const char* const b = load<char*>(right);
        return (a == nullptr) == (b == nullptr) && (a == nullptr || std::strcmp(a, b) == 0);
      }
      case Kind::sequence: {
        const auto a = load<hvl_t>(left);
        const auto b = load<hvl_t>(right);
        const ValueLayout& element = layout.parts[0].layout[0];
        return a.len == b.len &&
               (a.len == 0 || same(element, {static_cast<const std::byte*>(a.p), a.len * element.size},
                                   {static_cast<const std::byte*>(b.p), b.len * element.size}));
      }
      case Kind::array: return same(layout.parts[0].layout[0], {left, layout.size}, {right, layout.size});
      case Kind::compound:
        for (const auto& part : layout.parts)
          if (!same_value(part.layout[0], left + part.offset, right + part.offset)) return false;
        return true;
      case Kind::object_reference: {
        const auto a = load<hobj_ref_t>(left);
        return load<hobj_ref_t>(right) == (a == 0 ? 0 : references_.find(a).value_or(~hobj_ref_t{0}));
      }
      case Kind::region_reference: return same_region(left, right);
    }
    return false;
  }

  [[nodiscard]] bool same_region(const std::byte* left, const std::byte* right) const {
    static constexpr std::byte kNothing[sizeof(hdset_reg_ref_t)] = {};
    const bool nothing = std::memcmp(left, kNothing, sizeof kNothing) == 0;
    if (nothing || std::memcmp(right, kNothing, sizeof kNothing) == 0)
      return nothing && std::memcmp(right, kNothing, sizeof kNothing) == 0;
    const Handle a(H5Rdereference2(from_, H5P_DEFAULT, H5R_DATASET_REGION, left));
    const Handle b(H5Rdereference2(to_, H5P_DEFAULT, H5R_DATASET_REGION, right));
    const Handle a_space(H5Rget_region(from_, H5R_DATASET_REGION, left));
    const Handle b_space(H5Rget_region(to_, H5R_DATASET_REGION, right));
    ObjectInfo a_info;
    ObjectInfo b_info;
    if (!a || !b || !object_info(a.get(), a_info) || !object_info(b.get(), b_info)) return false;
    return references_.find(a_info.address) == b_info.address && same_selection(a_space.get(), b_space.get());
  }

  static bool same_selection(hid_t left, hid_t right) {
    const H5S_sel_type kind = H5Sget_select_type(left);
    const hssize_t points = H5Sget_select_npoints(left);
    if (H5Sextent_equal(left, right) <= 0 || H5Sget_select_type(right) != kind ||
        H5Sget_select_npoints(right) != points)
      return false;
    if (kind != H5S_SEL_HYPERSLABS && kind != H5S_SEL_POINTS) return true;  // all, or none
    const auto rank = static_cast<size_t>(std::max(H5Sget_simple_extent_ndims(left), 0));
    // Two corners or coordinates per block; for a regular selection with very many blocks, the corners of its bounding
    // box.
    constexpr hssize_t kMaxListed = hssize_t{1} << 20;
    const bool blocks = kind == H5S_SEL_HYPERSLABS;
    const hssize_t count = blocks ? H5Sget_select_hyper_nblocks(left) : points;
    if (blocks && H5Sget_select_hyper_nblocks(right) != count) return false;
    const bool listed = count >= 0 && count <= kMaxListed;
    const auto list = [&](hid_t space) {
      std::vector<hsize_t> numbers(2 * rank * (listed ? static_cast<size_t>(count) : 1));
      herr_t done = 0;
      if (!listed) {
        done = H5Sget_select_bounds(space, numbers.data(), numbers.data() + rank);
      } else if (blocks) {
        done = H5Sget_select_hyper_blocklist(space, 0, static_cast<hsize_t>(count), numbers.data());
      } else {
        done = H5Sget_select_elem_pointlist(space, 0, static_cast<hsize_t>(count), numbers.data());
      }
      if (done < 0) numbers.clear();
      return numbers;
    };
    const std::vector<hsize_t> numbers = list(left);
    return !numbers.empty() && numbers == list(right);
  }

  hid_t from_;
  hid_t to_;
  const ReferenceMap& references_;
};

}  // namespace

Result<> compare_attribute_values(hid_t from, hid_t to, const ReferenceMap& references) {
  const Handle stored(H5Aget_type(from));
  const Handle type(H5Tcopy(stored.get()));
  const Handle space(H5Aget_space(from));
  const hssize_t elements = H5Sget_simple_extent_npoints(space.get());
  if (!type || !space || elements < 0) return fail_library(EIO, "its type");
  if (elements == 0) return {};
  CODECFS_ASSIGN(const ValueLayout layout, ValueLayout::of(type.get()));
  if (static_cast<uint64_t>(elements) > kMaxAttributeBytes / layout.size)
    return fail(EIO, "an attribute of {} elements of {} bytes", elements, layout.size);
  Values left(type.get(), space.get(), layout, static_cast<uint64_t>(elements));
  if (H5Aread(from, type.get(), left.data()) < 0) return fail_library(EIO, "it cannot be read");
  left.were_read();
  Values right(type.get(), space.get(), layout, static_cast<uint64_t>(elements));
  if (H5Aread(to, type.get(), right.data()) < 0) return fail_library(EIO, "its copy cannot be read");
  right.were_read();
  if (!Comparison(from, to, references).same(layout, left.bytes(), right.bytes()))
    return fail(EIO, "its copy has another value");
  return {};
}

Result<> compare_fill_references(hid_t type, hid_t from_properties, hid_t to_properties, hid_t from, hid_t to,
                                 const ReferenceMap& references) {
  CODECFS_ASSIGN(const auto left, FillWithReferences::read(from_properties, type));
  CODECFS_ASSIGN(const auto right, FillWithReferences::read(to_properties, type));
  if (!left && !right) return {};
  if (!left || !right || !Comparison(from, to, references).same(left->layout(), left->bytes(), right->bytes()))
    return fail(EIO, "its copy has another fill value");
  return {};
}

Result<ElementComparison> ElementComparison::make(hid_t from, hid_t to, const ReferenceMap& references) {
  ElementComparison comparison(from, to, references);
  const Handle stored(H5Dget_type(from));
  comparison.type_ = Handle(H5Tcopy(stored.get()));
  comparison.space_ = Handle(H5Dget_space(from));
  if (!comparison.type_ || !comparison.space_) return fail_library(EIO, "its type");
  CODECFS_ASSIGN(comparison.layout_, ValueLayout::of(comparison.type_.get()));
  return comparison;
}

Result<> ElementComparison::compare_all() const {
  return in_pieces(space_.get(), layout_.size,
                   [this](hid_t memory, uint64_t elements) { return compare_piece(memory, space_.get(), elements); });
}

Result<> ElementComparison::compare_box(std::span<const hsize_t> start, std::span<const hsize_t> count) const {
  return in_pieces_of(
      space_.get(), layout_.size, start, count,
      [this](hid_t memory, uint64_t elements) { return compare_piece(memory, space_.get(), elements); }, kMaxBoxPiece);
}

Result<> ElementComparison::compare_piece(hid_t memory_space, hid_t file_space, uint64_t elements) const {
  Values left(type_.get(), memory_space, layout_, elements);
  if (H5Dread(from_, type_.get(), memory_space, file_space, H5P_DEFAULT, left.data()) < 0)
    return fail_library(EIO, "it cannot be read");
  left.were_read();
  Values right(type_.get(), memory_space, layout_, elements);
  if (H5Dread(to_, type_.get(), memory_space, file_space, H5P_DEFAULT, right.data()) < 0)
    return fail_library(EIO, "its copy cannot be read");
  right.were_read();
  if (!Comparison(from_, to_, *references_).same(layout_, left.bytes(), right.bytes()))
    return fail(EIO, "its copy has other data");
  return {};
}

}  // namespace codecfs::hdf5
