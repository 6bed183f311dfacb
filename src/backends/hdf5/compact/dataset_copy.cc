#include "backends/hdf5/compact/dataset_copy.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "backends/hdf5/compact/fill_references.h"
#include "backends/hdf5/compact/stored_chunks.h"
#include "backends/hdf5/compact/stored_values.h"
#include "backends/hdf5/format/chunk_index.h"
#include "backends/hdf5/library/filter_registration.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/stored_enum.h"
#include "base/progress_reporter.h"

namespace codecfs::hdf5 {
namespace {

Result<> check_filters(hid_t from_properties, hid_t made) {
  const Handle properties(H5Dget_create_plist(made));
  if (!properties) return fail_library(EIO, "the properties of its copy");
  CODECFS_ASSIGN(const std::vector<FilterStage> before, stored_chain(from_properties));
  CODECFS_ASSIGN(const std::vector<FilterStage> after, stored_chain(properties.get()));
  if (is_same_chain(before, after)) return {};
  return fail(EOPNOTSUPP, "libhdf5 rejects the parameters of its filters");
}

/// One element, which is the first.
Result<Handle> first_element(hid_t dataset) {
  Handle space(H5Dget_space(dataset));
  const std::array<hsize_t, H5S_MAX_RANK> origin{};
  if (!space || H5Sselect_elements(space.get(), H5S_SELECT_SET, 1, origin.data()) < 0)
    return fail_library(EIO, "its shape");
  return space;
}

/// libhdf5 refuses to read a dataset without a fill value until it has a chunk index, even an empty one, as a dataset
/// has that was shrunk to nothing. Then the copy gets one in the same way.
Result<> copy_empty_index(hid_t from, hid_t to, hid_t properties) {
  H5D_fill_value_t fill = H5D_FILL_VALUE_ERROR;
  if (H5Pfill_value_defined(properties, &fill) < 0) return fail_library(EIO, "its fill value");
  const Handle space(H5Dget_space(from));
  std::array<hsize_t, H5S_MAX_RANK> shape{};
  if (H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr) < 1) return fail_library(EIO, "its shape");
  if (fill != H5D_FILL_VALUE_UNDEFINED || H5Sget_simple_extent_npoints(space.get()) == 0) return {};
  const Handle type(H5Dget_type(from));
  CODECFS_ASSIGN(const Handle element, first_element(from));
  const Handle memory(H5Screate(H5S_SCALAR));
  std::vector<std::byte> value(H5Tget_size(type.get()));
  if (H5Dread(from, type.get(), memory.get(), element.get(), H5P_DEFAULT, value.data()) < 0) return {};
  std::array<hsize_t, H5S_MAX_RANK> nothing{};
  if (H5Dwrite(to, type.get(), memory.get(), element.get(), H5P_DEFAULT, value.data()) < 0 ||
      H5Dset_extent(to, nothing.data()) < 0 || H5Dset_extent(to, shape.data()) < 0)
    return fail_library(EIO, "its empty chunk index cannot be made");
  return {};
}

/// Whether writing the chunk would leave another filter mask in the index: where libhdf5 allocates all chunks together,
/// it stores chunks of fill there, and version 1.10 replaces a mask only together with the size.
Result<bool> keeps_mask(hid_t to, hid_t properties, const ChunkList& chunks, uint64_t number, const RawChunk& chunk) {
  StoredEnum<H5D_alloc_time_t> time;
  if (H5Pget_nfilters(properties) == 0) return false;
  if (H5Pget_alloc_time(properties, time.place()) < 0) return fail_library(EIO, "its properties");
  if (time == H5D_ALLOC_TIME_INCR) return false;
  hsize_t size = 0;
  // The first chunk allocates all, itself too.
  if (H5Dget_chunk_storage_size(to, chunks.start_of(number).data(), &size) < 0 || size == 0) return true;
  if (size != chunk.bytes.size()) return false;
  CODECFS_ASSIGN(const RawChunk before, RawChunk::read(to, chunks, number, size));
  return before.mask != chunk.mask;
}

Result<> copy_chunks(hid_t from, hid_t to, hid_t properties, uint64_t file_bytes) {
  CODECFS_ASSIGN(const ChunkList chunks, ChunkList::of(from, properties));
  for (const uint64_t number : chunks.stored) {
    CODECFS_ASSIGN(RawChunk chunk, RawChunk::read(from, chunks, number, file_bytes));
    ProgressReporter::add_to_current(chunk.bytes.size());
    const auto write = [&] {
      return H5Dwrite_chunk(to, H5P_DEFAULT, chunk.mask, chunks.start_of(number).data(), chunk.bytes.size(),
                            chunk.bytes.data()) >= 0;
    };
    CODECFS_ASSIGN(const bool must_grow, keeps_mask(to, properties, chunks, number, chunk));
    bool written = true;
    if (must_grow) {
      chunk.bytes.push_back(std::byte{0});
      written = write();
      chunk.bytes.pop_back();
    }
    if (!written || !write()) return fail_library(EIO, "chunk {} cannot be written", chunks.grid.name_of(number));
  }
  return chunks.stored.empty() ? copy_empty_index(from, to, properties) : Result<>();
}

}  // namespace

Result<Handle> make_dataset_like(hid_t from, hid_t type, hid_t to, PlaceholderFilters& placeholders,
                                 const ReferenceMap& references) {
  const Handle properties(H5Dget_create_plist(from));
  const Handle space(H5Dget_space(from));
  if (!properties || !space) return fail_library(EIO, "its properties");
  CODECFS_TRY(translate_fill(properties.get(), type, references));
  CODECFS_TRY(placeholders.register_filters(properties.get()));
  Handle made(H5Dcreate_anon(to, type, space.get(), properties.get(), H5P_DEFAULT));
  if (!made) return fail_library(EOPNOTSUPP, "libhdf5 does not make a dataset like it");
  CODECFS_TRY(check_filters(properties.get(), made.get()));
  return made;
}

Result<bool> cannot_be_made(hid_t dataset) {
  const Handle properties(H5Dget_create_plist(dataset));
  const Handle type(H5Dget_type(dataset));
  if (!properties || !type) return fail_library(EIO, "its properties");
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind != H5T_VLEN && (kind != H5T_STRING || H5Tis_variable_str(type.get()) <= 0)) return false;
  CODECFS_ASSIGN(const std::vector<FilterStage> chain, stored_chain(properties.get()));
  return !std::ranges::all_of(chain, &FilterStage::optional);
}

Result<Handle> copy_whole_dataset(hid_t from, hid_t to, PlaceholderFilters& placeholders) {
  const Handle properties(H5Dget_create_plist(from));
  const Handle type(H5Dget_type(from));
  if (!properties || !type) return fail_library(EIO, "its properties");
  CODECFS_ASSIGN(const ValueLayout layout, ValueLayout::of(type.get()));
  if (layout.references || H5Tcommitted(type.get()) != 0)
    return fail(
        EOPNOTSUPP,
        "it is of variable length with filters that are not optional, and its type is committed or has references");
  if (H5Pget_layout(properties.get()) == H5D_CHUNKED) {
    CODECFS_ASSIGN(const bool right, walk_is_right(from));
    if (!right)
      return fail(EOPNOTSUPP,
                  "it is of variable length with filters that are not optional, and libhdf5 does not copy chunks to "
                  "their places where only one dimension is unlimited and it is not the first");
  }
  CODECFS_TRY(placeholders.provide_filters(properties.get()));
  // H5Ocopy needs a link name; an unlinked group holds it and is removed afterwards.
  const Handle nameless(H5Gcreate_anon(to, H5P_DEFAULT, H5P_DEFAULT));
  const Handle how(H5Pcreate(H5P_OBJECT_COPY));
  if (!nameless || H5Pset_copy_object(how.get(), H5O_COPY_WITHOUT_ATTR_FLAG) < 0 ||
      H5Ocopy(from, ".", nameless.get(), "copy", how.get(), H5P_DEFAULT) < 0)
    return fail_library(EIO, "it cannot be copied");
  Handle made(H5Dopen2(nameless.get(), "copy", H5P_DEFAULT));
  if (!made || H5Ldelete(nameless.get(), "copy", H5P_DEFAULT) < 0) return fail_library(EIO, "its copy");
  CODECFS_TRY(check_filters(properties.get(), made.get()));
  return made;
}

Result<bool> data_needs_library(hid_t dataset) {
  const Handle stored(H5Dget_type(dataset));
  const Handle type(H5Tcopy(stored.get()));
  if (!type) return fail_library(EIO, "its type");
  CODECFS_ASSIGN(const ValueLayout layout, ValueLayout::of(type.get()));
  return layout.references || layout.heap;
}

Result<> copy_storage(hid_t from, hid_t to, uint64_t file_bytes, const ReferenceMap& references) {
  const Handle properties(H5Dget_create_plist(from));
  if (!properties) return fail_library(EIO, "its properties");
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (layout == H5D_CHUNKED) return copy_chunks(from, to, properties.get(), file_bytes);
  if (layout == H5D_VIRTUAL || H5Pget_external_count(properties.get()) > 0) return {};
  CODECFS_ASSIGN(const bool stored, is_data_stored(from, file_bytes));
  if (!stored) return {};
  CODECFS_ASSIGN(const ElementCopy copy, ElementCopy::make(from, to, references));
  return copy.copy_all();
}

Result<> copy_elements(hid_t from, hid_t to, const ReferenceMap& references) {
  const Handle properties(H5Dget_create_plist(from));
  if (!properties) return fail_library(EIO, "its properties");
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (layout == H5D_VIRTUAL) return {};
  if (H5Pget_external_count(properties.get()) > 0)
    return fail(EOPNOTSUPP, "what it has in other files refers to places in this one");
  CODECFS_ASSIGN(const ElementCopy copy, ElementCopy::make(from, to, references));
  if (layout != H5D_CHUNKED) {
    if (H5Dget_storage_size(from) == 0) return {};
    return copy.copy_all();
  }
  CODECFS_ASSIGN(const ChunkList chunks, ChunkList::of(from, properties.get()));
  for (const uint64_t number : chunks.stored) {
    CODECFS_TRY(copy.copy_box(chunks.start_of(number), chunks.extent_of(number)));
  }
  return {};
}

}  // namespace codecfs::hdf5
