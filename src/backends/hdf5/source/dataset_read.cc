// Reads a dataset's chunks. dataset.h describes the direct and the library path.

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "backends/hdf5/library/filter_registration.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_read.h"
#include "backends/hdf5/library/text.h"
#include "backends/hdf5/source/dataset.h"
#include "backends/hdf5/wal/file_driver.h"
#include "base/endian.h"
#include "base/utf8.h"
#include "filters/core/common_form.h"
#include "model/fill.h"
#include "model/limits.h"

namespace codecfs::hdf5 {
namespace {

// Size of an element in the file: a heap reference where libhdf5 returns the size of a pointer in memory; sets `heaps`
// in that case.
uint64_t size_in_file(hid_t type, size_t offset_size, bool& heaps) {
  const H5T_class_t kind = H5Tget_class(type);
  const uint64_t size = H5Tget_size(type);
  if (kind == H5T_VLEN || (kind == H5T_STRING && H5Tis_variable_str(type) != 0)) {
    heaps = true;
    return sizeof(uint32_t) + offset_size + sizeof(uint32_t);
  }
  if (kind == H5T_ARRAY) {
    const Handle base(H5Tget_super(type));
    const uint64_t base_size = H5Tget_size(base.get());
    return base_size == 0 ? size : size / base_size * size_in_file(base.get(), offset_size, heaps);
  }
  if (kind != H5T_COMPOUND) return size;
  uint64_t total = size;
  for (int i = 0; i < H5Tget_nmembers(type); ++i) {
    const Handle member(H5Tget_member_type(type, static_cast<unsigned>(i)));
    total += size_in_file(member.get(), offset_size, heaps) - H5Tget_size(member.get());
  }
  return total;
}

std::array<hsize_t, H5S_MAX_RANK> library_dims(const std::vector<uint64_t>& values, size_t rank) {
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  std::copy_n(values.begin(), rank, dims.begin());
  return dims;
}

}  // namespace

Result<DecodedChunk> Dataset::fetch_chunk(uint64_t number) const {
  if (number >= facts_.grid.count()) return fail(ENOENT, "{} has no chunk of the number {}", name_, number);
  if (facts_.unreadable) return std::unexpected(*facts_.unreadable);
  const Region region = region_of(number);
  if (facts_.storage == Storage::chunked && direct_) return fetch_stored(region);
  CODECFS_ASSIGN(const ChunkInfo info, locate(number));
  if (!info.stored) return fail(ENOENT, "{}: chunk {} is not stored", name_, facts_.grid.name_of(number));
  CODECFS_ASSIGN(Buffer bytes, read_values(region));
  return DecodedChunk{std::move(bytes), info.stored_size};
}

Result<Buffer> Dataset::read_values(const Region& region) const {
  if (!direct_) CODECFS_TRY(check_current());
  if (mapped_.text) return read_text(region);
  CODECFS_ASSIGN(Buffer values, direct_ ? read_piece(region, facts_.type.size, facts_.fill)
                                        : read_by_library(region, mapped_.memory.get(), facts_.fill));
  clear_behind_ends(facts_.ended_strings, facts_.type.size, values.mutable_bytes());
  return values;
}

Result<> Dataset::read_at(uint64_t address, MutableBytes to) const {
  CODECFS_ASSIGN(const size_t count, file_.bytes->read(address, to));
  if (count == to.size()) return {};
  const LibraryLock lock;
  if (!is_allocated(*file_.bytes, address, to.size()))
    return fail(EIO, "{}: {} bytes at {} are beyond the end of the file ({} bytes): it is truncated or damaged", name_,
                to.size(), address, file_.bytes->size());
  std::memset(to.data() + count, 0, to.size() - count);
  return {};
}

// The file space of the chunk may be reused while its bytes are read, so compare the generation before and after. The
// last try holds the lock, so that frequent writes cannot starve a reader.
Result<Dataset::Encoded> Dataset::read_encoded(const Region& region, uint64_t chunk_bytes) const {
  constexpr int kTries = 8;
  const std::atomic<uint64_t>& generation = file_.generation_of(address_);
  for (int round = 1;; ++round) {
    std::optional<LibraryLock> lock(std::in_place);
    const uint64_t before = generation.load();
    CODECFS_ASSIGN(const StoredChunk chunk, stored_chunk(region));
    if (!chunk.stored)
      return fail(ENOENT, "{}: chunk {} is not stored", name_,
                  facts_.grid.name_of(facts_.grid.number_of(region.coordinates)));
    Region valid = valid_part(region);
    const uint64_t most = most_encoded_bytes(chunk_bytes, pipeline_ ? &*pipeline_ : nullptr);
    if (chunk.size > most)
      return fail(EIO, "{}: a chunk of {} bytes is said to be stored in {} bytes", name_, chunk_bytes, chunk.size);
    if (round < kTries) lock.reset();
    CODECFS_ASSIGN(Buffer stored, Buffer::allocate(chunk.size));
    const Result<> read = read_at(chunk.address, stored.mutable_bytes());
    if (generation.load() != before) continue;
    CODECFS_TRY(read);
    return Encoded{std::move(stored), chunk, std::move(valid)};
  }
}

Result<DecodedChunk> Dataset::fetch_stored(const Region& region) const {
  CODECFS_ASSIGN(Encoded stored, read_encoded(region, *facts_.chunk_bytes));
  auto decoded = decode(std::move(stored));
  if (!decoded)
    return fail(decoded.error().code, "{}: chunk {}: {}", name_,
                facts_.grid.name_of(facts_.grid.number_of(region.coordinates)), decoded.error().reason);
  clear_behind_ends(facts_.ended_strings, facts_.type.size, decoded->mutable_bytes());
  CODECFS_ASSIGN(decoded, pad_chunk(*std::move(decoded), *facts_.chunk_bytes, facts_.fill));
  if (stored.valid.elements != region.elements) fill_beyond(stored.valid, decoded->mutable_bytes());
  return DecodedChunk{*std::move(decoded), stored.chunk.size};
}

// May be shorter than a chunk. Leaves all but the bytes of `stored` as it is.
Result<Buffer> Dataset::decode(Encoded&& stored) const {
  return decode_chunk(facts_, pipeline_, pipeline_error_, std::move(stored.bytes), stored.chunk.filter_mask,
                      needed_bytes(facts_.grid, stored.valid.count, facts_.type.size));
}

Result<Buffer> Dataset::read_piece(const Region& region, uint64_t element, Bytes fill) const {
  const uint64_t bytes = region.elements * element;
  const uint64_t begin = region.first * element;
  if (!external_ && (begin > storage_bytes_ || bytes > storage_bytes_ - begin))
    return fail(EIO, "{}: its storage of {} bytes is smaller than its shape", name_, storage_bytes_);
  CODECFS_ASSIGN(Buffer piece, Buffer::allocate(facts_.grid.elements_per_chunk() * element));
  const MutableBytes inside = piece.mutable_bytes().first(bytes);
  if (external_) {
    auto read = external_->read(begin, inside);
    if (!read) return fail(read.error().code, "{}: {}", name_, read.error().reason);
  } else {
    // The data never moves but may be overwritten concurrently: if its generation changed, read again under the lock.
    const std::atomic<uint64_t>& generation = file_.generation_of(address_);
    std::optional<LibraryLock> lock(std::in_place);
    CODECFS_TRY(check_current());
    const uint64_t before = generation.load();
    lock.reset();
    const Result<> read = read_at(offset_ + begin, inside);
    if (generation.load() != before) {
      lock.emplace();
      CODECFS_TRY(check_current());
      CODECFS_TRY(read_at(offset_ + begin, inside));
    } else {
      CODECFS_TRY(read);
    }
  }
  repeat_element(fill, piece.mutable_bytes().subspan(bytes));
  return piece;
}

// Selects the chunk's part of the array in the file, and its place in the chunk in memory.
Result<Handle> Dataset::library_selection(const Region& region, Handle& memory) const {
  Handle space(H5Dget_space(id()));
  if (rank_ == 0) {
    memory = Handle(H5Screate(H5S_SCALAR));
    return space;
  }
  const auto start = library_dims(region.start, rank_);
  const auto count = library_dims(region.count, rank_);
  const auto chunk = library_dims(facts_.grid.chunks(), rank_);
  const std::array<hsize_t, H5S_MAX_RANK> origin{};
  memory = Handle(H5Screate_simple(static_cast<int>(rank_), chunk.data(), nullptr));
  if (H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
      H5Sselect_hyperslab(memory.get(), H5S_SELECT_SET, origin.data(), nullptr, count.data(), nullptr) < 0)
    return fail_library(EIO, "{}: selecting a chunk", name_);
  return space;
}

Result<Buffer> Dataset::read_by_library(const Region& region, hid_t type, Bytes fill) const {
  CODECFS_ASSIGN(Buffer chunk, Buffer::allocate(*facts_.chunk_bytes));
  repeat_element(fill, chunk.mutable_bytes());
  register_temporarily(facts_);
  const LibraryRead library;
  Handle memory;
  CODECFS_ASSIGN(const Handle space, library_selection(valid_part(region), memory));
  if (H5Dread(id(), type, memory.get(), space.get(), H5P_DEFAULT, chunk.data()) < 0)
    return fail_library(EIO, "{}: chunk {}", name_, facts_.grid.name_of(facts_.grid.number_of(region.coordinates)));
  return chunk;
}

// vlen-utf8: LE32 number of elements, then for each its LE32 length and its bytes. Source: numcodecs, "vlen".
Result<Buffer> Dataset::read_text(const Region& region) const {
  const uint64_t elements = facts_.grid.elements_per_chunk();
  std::vector<char*> texts(elements, nullptr);
  register_temporarily(facts_);
  const LibraryRead library;
  const Region valid = valid_part(region);
  Handle memory;
  CODECFS_ASSIGN(const Handle space, library_selection(valid, memory));
  struct Reclaim {
    hid_t type, space;
    void* values;
    ~Reclaim() { reclaim(type, space, values); }
  } const owned{mapped_.memory.get(), memory.get(), texts.data()};
  if (H5Dread(id(), mapped_.memory.get(), memory.get(), space.get(), H5P_DEFAULT, texts.data()) < 0)
    return fail_library(EIO, "{}: chunk {}", name_, facts_.grid.name_of(facts_.grid.number_of(region.coordinates)));

  // Elements beyond the array's edge are fill; libhdf5 has filled unwritten ones within it.
  std::vector<bool> inside(elements, valid.whole(facts_.grid));
  if (!valid.whole(facts_.grid)) {
    std::vector<uint64_t> at(facts_.grid.rank());
    for (uint64_t i = 0; i < elements; ++i) {
      uint64_t rest = i;
      bool in = true;
      for (size_t d = at.size(); d-- > 0;) {
        in &= rest % facts_.grid.chunks()[d] < valid.count[d];
        rest /= facts_.grid.chunks()[d];
      }
      inside[i] = in;
    }
  }
  uint64_t total = sizeof(uint32_t);
  std::vector<std::string_view> shown(elements);
  std::deque<std::string> transcoded;  // readers of Zarr refuse the whole chunk for one string that is not UTF-8
  for (uint64_t i = 0; i < elements; ++i) {
    if (texts[i] != nullptr) shown[i] = texts[i];
    if (!is_utf8(shown[i])) shown[i] = transcoded.emplace_back(as_utf8(shown[i]));
    const size_t size = shown[i].size();
    if (size > max_chunk_bytes())
      return fail(EFBIG, "{}: a string of {} bytes is over {}", name_, size, max_chunk_text());
    total += inside[i] ? sizeof(uint32_t) + size : facts_.fill.size();
    if (total > max_chunk_bytes())
      return fail(EFBIG, "{}: the strings of a chunk are over {}", name_, max_chunk_text());
  }
  CODECFS_ASSIGN(Buffer chunk, Buffer::allocate(total));
  std::byte* to = chunk.data();
  store_le(to, static_cast<uint32_t>(elements));
  to += sizeof(uint32_t);
  for (uint64_t i = 0; i < elements; ++i) {
    if (!inside[i]) {
      to = std::ranges::copy(facts_.fill, to).out;
      continue;
    }
    store_le(to, static_cast<uint32_t>(shown[i].size()));
    to += sizeof(uint32_t);
    to = std::ranges::copy(std::as_bytes(std::span(shown[i])), to).out;
  }
  return chunk;
}

Result<Dataset::FileForm> Dataset::file_form() const {
  const LibraryLock lock;
  FileForm form;
  form.type = Handle(H5Dget_type(id()));
  const Handle properties(H5Dget_create_plist(id()));
  const Handle creation(H5Fget_create_plist(file_.file.get()));
  size_t offset_size = 0;
  size_t length_size = 0;
  if (!form.type || !properties || H5Pget_sizes(creation.get(), &offset_size, &length_size) < 0)
    return fail_library(EIO, "{}: its type cannot be read", name_);
  bool heaps = false;
  const uint64_t size = size_in_file(form.type.get(), offset_size, heaps);
  form.element = size / mapped_.count();
  if (form.element == 0) return fail(EIO, "{}: its type has no size", name_);
  if (facts_.grid.elements_per_chunk() > max_chunk_bytes() / form.element)
    return fail(EFBIG, "{}: a chunk of {} elements of {} bytes is larger than {}", name_,
                facts_.grid.elements_per_chunk(), form.element, max_chunk_text());
  form.shape = filters::shape_of_chunk(facts_);
  form.shape.bytes = facts_.grid.elements_per_chunk() * form.element;
  if (mapped_.text || facts_.unreadable) form.shape.type = {TypeKind::raw, ByteOrder::none, form.element, {}, {}};

  const bool only_library =
      facts_.storage == Storage::compact ||
      std::ranges::any_of(facts_.filters, [](const FilterStage& stage) { return filters::only_in_libhdf5(stage.id); });
  if (only_library && (heaps || facts_.unreadable))
    return fail(EOPNOTSUPP, "{}: data of this type in compact storage or with {} cannot be re-encoded", name_,
                "n-bit and scale-offset filters");
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  form.fill.assign(heaps ? 1 : size, std::byte{0});
  if (!heaps && H5Pfill_value_defined(properties.get(), &defined) >= 0 && defined != H5D_FILL_VALUE_UNDEFINED &&
      H5Pget_fill_value(properties.get(), form.type.get(), form.fill.data()) < 0)
    return fail_library(EIO, "{}: its fill value", name_);
  if (only_library) return form;

  auto pipeline = filters::Pipeline::make(facts_.filters, form.shape);
  if (!pipeline) return fail(pipeline.error().code, "{}: {}", name_, pipeline.error().reason);
  form.pipeline = *std::move(pipeline);
  return form;
}

Result<filters::EncodedChunk> Dataset::read_as_stored(uint64_t number, const FileForm& form) const {
  CODECFS_ASSIGN(Encoded stored, read_encoded(region_of(number), *form.shape.bytes));
  return filters::EncodedChunk{std::move(stored.bytes), stored.chunk.filter_mask};
}

Result<Buffer> Dataset::read_file_form(uint64_t number, const FileForm& form) const {
  const Region region = region_of(number);
  if (!form.pipeline) return read_by_library(region, form.type.get(), form.fill);
  if (facts_.storage != Storage::chunked) return read_piece(region, form.element, form.fill);
  CODECFS_ASSIGN(Encoded stored, read_encoded(region, *form.shape.bytes));
  const uint64_t needed = needed_bytes(facts_.grid, stored.valid.count, form.element);
  auto decoded = form.pipeline->decode(std::move(stored.bytes), stored.chunk.filter_mask, needed);
  if (!decoded)
    return fail(decoded.error().code, "{}: chunk {}: {}", name_, facts_.grid.name_of(number), decoded.error().reason);
  return pad_chunk(*std::move(decoded), *form.shape.bytes, form.fill);
}

/// Whether decoding the stored bytes gives the presented chunk, if the filter mask is 0.
bool Dataset::has_exact_encoding(const Region& region) const {
  if (!is_direct(region) || facts_.unreadable || !facts_.chunk_bytes) return false;
  return !longer_ || valid_part(region).elements == region.elements;
}

Result<std::optional<uint64_t>> Dataset::stored_bytes(uint64_t number) const {
  const Region region = region_of(number);
  if (!has_exact_encoding(region)) return std::nullopt;
  CODECFS_ASSIGN(const ChunkInfo chunk, locate(number));
  if (!chunk.stored || chunk.filter_mask != 0) return std::nullopt;
  if (filters::may_lack_common_form(facts_.filters)) {
    if (!chunk.offset) return std::nullopt;
    std::array<std::byte, filters::kCommonFormHead> buffer{};
    const MutableBytes head = MutableBytes(buffer).first(std::min<uint64_t>(buffer.size(), chunk.stored_size));
    CODECFS_TRY(read_at(*chunk.offset, head));
    if (!filters::has_common_form(facts_.filters, filters::shape_of_chunk(facts_), head, chunk.stored_size))
      return std::nullopt;
  }
  if (region.whole(facts_.grid) && facts_.ended_strings.empty()) return chunk.stored_size;
  CODECFS_ASSIGN(const auto stored, read_stored(number));
  if (!stored) return std::nullopt;
  return stored->size();
}

Result<std::optional<Buffer>> Dataset::read_stored(uint64_t number) const {
  if (number >= facts_.grid.count()) return fail(ENOENT, "{} has no chunk of the number {}", name_, number);
  const Region region = region_of(number);
  if (!has_exact_encoding(region)) return std::nullopt;
  CODECFS_ASSIGN(Encoded stored, read_encoded(region, *facts_.chunk_bytes));
  if (stored.chunk.filter_mask != 0 || stored.valid.elements != region.elements) return std::nullopt;
  const Bytes head = stored.bytes.bytes().first(std::min(filters::kCommonFormHead, stored.bytes.size()));
  if (!filters::has_common_form(facts_.filters, filters::shape_of_chunk(facts_), head, stored.bytes.size()))
    return std::nullopt;
  if (!region.whole(facts_.grid) || !facts_.ended_strings.empty()) {
    CODECFS_ASSIGN(Buffer copy, Buffer::copy_of(stored.bytes.bytes()));
    const auto decoded = decode({std::move(copy), stored.chunk, stored.valid});
    if (decoded && !is_as_shown(facts_, decoded->bytes())) return std::nullopt;
  }
  return std::move(stored.bytes);
}

}  // namespace codecfs::hdf5
