// Writes a dataset's chunks. Datasets that are read directly are encoded without libhdf5, in parallel, and stored with
// H5Dwrite_chunk; the others are written with H5Dwrite.

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include "backends/hdf5/library/filter_registration.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_read.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/source/dataset.h"
#include "base/endian.h"
#include "base/utf8.h"
#include "model/fill.h"

namespace codecfs::hdf5 {

Result<> Dataset::writable() const {
  if (file_.not_writable) return std::unexpected(*file_.not_writable);
  if (facts_.unreadable) return std::unexpected(*facts_.unreadable);
  if (facts_.storage == Storage::virtual_sources)
    return fail(EOPNOTSUPP, "{}: its data is in the sources of a virtual dataset; write those", name_);
  if (facts_.storage == Storage::external)
    return fail(EOPNOTSUPP, "{}: its data is in external files, which are only read", name_);
  if (facts_.storage == Storage::chunked && direct_ && !pipeline_)
    return fail(pipeline_error_->code, "{}: {}", name_, pipeline_error_->reason);
  return {};
}

void Dataset::note_change() {
  ++file_.generation_of(address_);
  stored_count_.reset();
  if (file_.listing_owner == this) {
    file_.listing.reset();
    file_.listing_owner = nullptr;
  }
}

Result<> Dataset::write_chunk(uint64_t number, Bytes chunk) {
  CODECFS_TRY(writable());
  if (number >= facts_.grid.count()) return fail(EINVAL, "{} has no chunk of the number {}", name_, number);
  if (facts_.chunk_bytes && chunk.size() != *facts_.chunk_bytes)
    return fail(EINVAL, "{}: a chunk has {} bytes, not {}", name_, *facts_.chunk_bytes, chunk.size());
  const Region region = region_of(number);
  CODECFS_TRY(store_shape_for(region));
  if (mapped_.text) return write_text(region, chunk);
  if (!is_direct(region)) return write_by_library(region, chunk);
  if (pipeline_->empty()) return store(region, chunk, 0);
  Result<filters::EncodedChunk> encoded = pipeline_->encode(chunk);
  if (!encoded)
    return fail(encoded.error().code, "{}: chunk {}: {}", name_, facts_.grid.name_of(number), encoded.error().reason);
  return store(region, encoded->bytes.bytes(), encoded->filter_mask);
}

Result<bool> Dataset::write_encoded(uint64_t number, std::span<const FilterStage> chain, uint32_t filter_mask,
                                    Bytes encoded) {
  CODECFS_TRY(writable());
  if (number >= facts_.grid.count()) return fail(EINVAL, "{} has no chunk of the number {}", name_, number);
  const Region region = region_of(number);
  if (!is_direct(region) || !is_same_chain(chain, facts_.filters)) return false;
  CODECFS_TRY(store_shape_for(region));
  CODECFS_TRY(store(region, encoded, filter_mask));
  return true;
}

Result<bool> Dataset::write_stored(uint64_t number, Bytes stored) {
  CODECFS_TRY(writable());
  if (number >= facts_.grid.count()) return fail(EINVAL, "{} has no chunk of the number {}", name_, number);
  const Region region = region_of(number);
  CODECFS_TRY(store_shape_for(region));
  if (!has_exact_encoding(region)) return false;
  CODECFS_TRY(store(region, stored, 0));
  return true;
}

Result<> Dataset::remove_chunk(uint64_t number) {
  CODECFS_TRY(writable());
  CODECFS_ASSIGN(const ChunkInfo info, locate(number));
  if (!info.stored) return {};
  CODECFS_ASSIGN(const Buffer fill, make_fill_chunk(facts_));
  return write_chunk(number, fill.bytes());
}

// Whether the first write allocated all chunks already. H5Dget_space_status adds up the sizes of all stored chunks, so
// it is only called if neither this chunk nor the first one is stored: then there are none, or few after an allocation
// for an empty shape, which is remembered.
Result<bool> Dataset::has_allocated(const Region& region) const {
  const LibraryLock lock;
  const hid_t dataset = id();
  if (dataset < 0 || allocated_epoch_ == file_.epoch) return true;  // the caller's next step detects an invalid one
  CODECFS_ASSIGN(const StoredChunk chunk, stored_chunk(region));
  if (chunk.stored) return true;
  CODECFS_ASSIGN(const StoredChunk first, stored_chunk(region_of(0)));
  if (first.stored) return true;
  H5D_space_status_t status{};
  if (H5Dget_space_status(dataset, &status) < 0) return fail_library(EIO, "{}: how it is stored", name_);
  if (status == H5D_SPACE_STATUS_NOT_ALLOCATED) return false;
  allocated_epoch_ = file_.epoch;
  return true;
}

// The encoded size of all other chunks if the first write allocates all chunks at once (early or late allocation); else
// 0.
Result<uint64_t> Dataset::first_allocation(const Region& region) const {
  if (!allocates_all_) return uint64_t{0};
  CODECFS_ASSIGN(const bool allocated, has_allocated(region));
  if (allocated) return uint64_t{0};
  uint64_t each = facts_.chunk_bytes.value_or(0);
  if (!pipeline_->empty()) {
    CODECFS_ASSIGN(const Buffer fill, make_fill_chunk(facts_));
    CODECFS_ASSIGN(const filters::EncodedChunk encoded, pipeline_->encode(fill.bytes()));
    each = encoded.bytes.size();
  }
  uint64_t all = 0;
  if (__builtin_mul_overflow(each, facts_.grid.count(), &all)) all = UINT64_MAX / 4;
  return std::max<uint64_t>(std::min(all, UINT64_MAX / 4), 1);
}

Result<> Dataset::store(const Region& region, Bytes encoded, uint32_t filter_mask) {
  CODECFS_ASSIGN(const uint64_t allocation, first_allocation(region));
  if (allocation == 0) return store_now(region, encoded, filter_mask, 0);
  // libhdf5 fills and encodes all other chunks with its own pipeline.
  CODECFS_TRY(file_.commit_before_risk());
  register_temporarily(facts_);
  const ChangeTurn turn(file_);
  const LibraryRead library;
  return store_now(region, encoded, filter_mask, allocation);
}

Result<> Dataset::store_recoded(uint64_t number, Bytes encoded, uint32_t filter_mask) {
  return store_now(region_of(number), encoded, filter_mask, 0, true);
}

// `allocation`: see first_allocation().
Result<> Dataset::store_now(const Region& region, Bytes encoded, uint32_t filter_mask, uint64_t allocation,
                            bool rewrite_mask) {
  const uint64_t number = facts_.grid.number_of(region.coordinates);
  std::array<hsize_t, H5S_MAX_RANK> offset{};
  std::copy_n(region.start.begin(), rank_, offset.begin());
  const ChangeTurn turn(file_);
  const LibraryLock lock;
  CODECFS_ASSIGN(const StoredChunk old, stored_chunk(region));
  const bool in_place = old.stored && old.size == encoded.size();
  // libhdf5 would write over what follows in the file.
  if (old.stored && !in_place && facts_.filters.empty())
    return fail(
        EOPNOTSUPP,
        "{}: chunk {} is stored in {} bytes, not {}, and libhdf5 moves no chunks without filters: set filters of "
        "the variable first (codecfs recode)",
        name_, facts_.grid.name_of(number), old.size, encoded.size());
  if (allocation != 0) {
    CODECFS_TRY(file_.allow_risky_change(allocation + 2 * encoded.size(), allocation + encoded.size()));
  } else {
    CODECFS_TRY(file_.allow_change(2 * encoded.size(), in_place ? 0 : encoded.size()));
  }
  note_change();
  const auto write = [&](Bytes bytes) {
    return H5Dwrite_chunk(id(), H5P_DEFAULT, filter_mask, offset.data(), bytes.size(), bytes.data()) >= 0;
  };
  bool written = true;
  // libhdf5 1.10 updates the mask in its index only if the size changes too. If this write makes it allocate all
  // chunks, it first stores this one as fill, perhaps with the same size and another mask.
  const bool is_filled_first = allocation != 0 && !facts_.filters.empty();
  if (is_filled_first || (in_place && (rewrite_mask || old.filter_mask != filter_mask))) {
    CODECFS_ASSIGN(Buffer longer, Buffer::allocate(encoded.size() + 1));
    std::memcpy(longer.data(), encoded.data(), encoded.size());
    longer.data()[encoded.size()] = std::byte{0};
    written = write(longer.bytes());
  }
  if (written && write(encoded)) {
    if (!facts_.filters.empty()) file_.written_masks[address_] = {number, filter_mask};
    return {};
  }
  return file_.change_failed(fail_library(EIO, "{}: storing chunk {}", name_, facts_.grid.name_of(number)));
}

Result<> Dataset::write_by_library(const Region& region, Bytes chunk) {
  CODECFS_TRY(file_.commit_before_risk());
  register_temporarily(facts_);
  const ChangeTurn turn(file_);
  const LibraryRead library;
  CODECFS_TRY(file_.allow_risky_change(chunk.size(), chunk.size()));
  Handle memory;
  CODECFS_ASSIGN(const Handle space, library_selection(region, memory));
  StoredChunk before;
  if (facts_.storage == Storage::chunked && facts_.filters.size() > 1) {
    CODECFS_ASSIGN(before, stored_chunk(region));
  }
  note_change();
  const bool written =
      H5Dwrite(id(), mapped_.memory.get(), memory.get(), space.get(), H5P_DEFAULT, chunk.data()) >= 0 &&
      (file_.is_bulk || H5Dflush(id()) >= 0);  // write to the driver, from where the direct path reads
  if (!has_storage_) outdated_ = true;
  if (written) return repair_mask(region, before);
  return file_.change_failed(
      fail_library(EIO, "{}: storing chunk {}", name_, facts_.grid.name_of(facts_.grid.number_of(region.coordinates))));
}

// libhdf5 (1.10) updates the filter mask of a chunk in its index only if the size changes too. Now it still returns the
// right mask, from its cache of the last chunk, so write that one. `before`: the chunk before the write. With a single
// filter, another mask always means another size.
Result<> Dataset::repair_mask(const Region& region, const StoredChunk& before) {
  if (const auto written = file_.written_masks.find(address_);
      written != file_.written_masks.end() && written->second.chunk == facts_.grid.number_of(region.coordinates))
    file_.written_masks.erase(written);
  if (facts_.filters.size() < 2) return {};
  CODECFS_ASSIGN(const StoredChunk now, stored_chunk(region));
  if (before.stored) {
    if (now.size != before.size || now.filter_mask == before.filter_mask) return {};
  } else if (!allocates_all_) {
    return {};
  }  // else the write may have allocated all chunks, and thereby have stored this one as fill first
  std::array<hsize_t, H5S_MAX_RANK> offset{};
  std::copy_n(region.start.begin(), rank_, offset.begin());
  CODECFS_ASSIGN(Buffer bytes, Buffer::allocate(now.size));
  uint32_t mask = 0;
  if (read_raw_chunk(id(), offset.data(), mask, bytes.data(), now.size) < 0)
    return file_.change_failed(fail_library(EIO, "{}: a chunk that was just stored cannot be read", name_));
  return store_now(region, bytes.bytes(), now.filter_mask, 0, true);
}

// What vlen-utf8 does not distinguish stays as it is where the same is written: null pointers and empty strings, and
// texts that are not UTF-8. `texts` are set to what is to be stored, of which `kept` holds some.
Result<> Dataset::keep_equal_strings(const Region& region, std::vector<const char*>& texts,
                                     std::deque<std::string>& kept) const {
  std::vector<char*> old(texts.size(), nullptr);
  register_temporarily(facts_);
  const LibraryRead library;
  Handle memory;
  CODECFS_ASSIGN(const Handle space, library_selection(region, memory));
  if (H5Dread(id(), mapped_.memory.get(), memory.get(), space.get(), H5P_DEFAULT, old.data()) < 0)
    return fail_library(EIO, "{}: chunk {}", name_, facts_.grid.name_of(facts_.grid.number_of(region.coordinates)));
  for (size_t i = 0; i < texts.size(); ++i) {
    if (old[i] == nullptr) {
      if (*texts[i] == '\0') texts[i] = nullptr;
    } else if (!is_utf8(old[i]) && as_utf8(old[i]) == texts[i]) {
      texts[i] = kept.emplace_back(old[i]).c_str();
    }
  }
  reclaim(mapped_.memory.get(), memory.get(), old.data());
  return {};
}

// vlen-utf8: LE32 number of elements, then for each its LE32 length and its bytes. Source: numcodecs, "vlen".
Result<> Dataset::write_text(const Region& region, Bytes chunk) {
  const uint64_t elements = facts_.grid.elements_per_chunk();
  const auto damaged = [&] { return fail(EINVAL, "{}: this is not a vlen-utf8 chunk of {} strings", name_, elements); };
  if (chunk.size() < sizeof(uint32_t) || load_le<uint32_t>(chunk.data()) != elements) return damaged();
  std::vector<std::string> texts(elements);
  std::vector<const char*> pointers(elements);
  Bytes rest = chunk.subspan(sizeof(uint32_t));
  for (uint64_t i = 0; i < elements; ++i) {
    if (rest.size() < sizeof(uint32_t)) return damaged();
    const size_t size = load_le<uint32_t>(rest.data());
    rest = rest.subspan(sizeof(uint32_t));
    if (size > rest.size()) return damaged();
    texts[i].assign(reinterpret_cast<const char*>(rest.data()), size);
    if (texts[i].find('\0') != std::string::npos)
      return fail(EINVAL, "{}: a string of HDF5 cannot hold a zero byte", name_);
    pointers[i] = texts[i].c_str();
    rest = rest.subspan(size);
  }
  if (!rest.empty()) return damaged();
  std::deque<std::string> kept;
  CODECFS_TRY(keep_equal_strings(region, pointers, kept));
  return write_by_library(region, std::as_bytes(std::span(pointers)));
}

}  // namespace codecfs::hdf5
