#pragma once
// An open dataset: what it is, where its chunks are, and what is in them.
//
// Chunks take one of two roads. The direct one: libhdf5 says where a chunk is, its bytes are read with pread and
// decoded with our own pipeline, many at a time. The slow one: H5Dread of the chunk's part of the array, one at a time,
// for what only libhdf5 can put together (virtual storage, compact data, n-bit and scale-offset, integers narrower than
// their bytes, strings of variable length).
//
// Contiguous and other unchunked storage is cut along the slowest dimensions into pieces of about kPieceBytes, each of
// them contiguous in C order.
//
// The shape that is shown may be larger than the stored one (Dimensions::record_shape()): what lies beyond that is
// fill (dataset_shape.cc).
//
// A Dataset is immutable but for what the LibraryLock guards; its functions may be called from many threads and take
// that lock themselves.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "backends/hdf5/format/chunk_index.h"
#include "backends/hdf5/format/external_storage.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/metadata/type_map.h"
#include "backends/hdf5/source/source_file.h"
#include "filters/core/pipeline.h"
#include "model/variable.h"

namespace codecfs::hdf5 {

inline constexpr uint64_t kPieceBytes = uint64_t{16} << 20;

class Dataset {
 public:
  /// `dataset` as opened with default access; `name` for messages; `file` outlives the Dataset.
  static Result<std::shared_ptr<Dataset>> open(SourceFile& file, Handle dataset, std::string name);
  /// Before others have it: shows this shape, of the same rank and nowhere smaller. Only of chunked storage. EOVERFLOW.
  Result<> show_shape(const std::vector<uint64_t>& shape);
  ~Dataset();
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  /// All of the variable but its attributes and dimension names.
  [[nodiscard]] const Variable& facts() const { return facts_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// libhdf5's identifier, valid until the LibraryLock is released, under which it is asked for: the file may be closed
  /// and opened again. Negative, and outdated() from then on, where this is not what the file has any more.
  [[nodiscard]] hid_t id() const;
  /// Of the object in the file.
  [[nodiscard]] uint64_t address() const { return address_; }
  /// Dimensions of the dataset itself; facts().grid has more where its elements are arrays, and one where it is null.
  [[nodiscard]] size_t rank() const { return rank_; }

  Result<ChunkInfo> locate(uint64_t number) const;
  Result<std::vector<uint64_t>> stored_chunks(uint64_t from, size_t limit);
  Result<Buffer> read_chunk(uint64_t number) const;

  /// What a chunk is in the file before the first filter: elements of the file's own type, whatever that is, with
  /// references to the file's heaps as they are.
  struct FileForm {
    Handle type;                                // of the file; destroyed under the LibraryLock
    uint64_t element = 0;                       // bytes of a presented element in the file
    filters::ChunkShape shape;                  // its size is always known
    std::vector<std::byte> fill;                // one element, or a byte of zeros
    std::optional<filters::Pipeline> pipeline;  // none: libhdf5 reads (n-bit, scale-offset, compact storage)
  };
  /// EOPNOTSUPP where chunks cannot be had so; EIO where a filter is missing.
  Result<FileForm> file_form() const;
  /// A chunk in that form, edge chunks padded. ENOENT where it is not stored.
  Result<Buffer> read_file_form(uint64_t number, const FileForm& form) const;
  /// The bytes of a chunk as they are stored, with their filter mask.
  Result<filters::EncodedChunk> read_as_stored(uint64_t number, const FileForm& form) const;
  /// Whether the chunk reaches over the edge of the stored array.
  [[nodiscard]] bool is_partial_chunk(uint64_t number) const { return is_partial(region_of(number)); }
  /// Of unchunked data: whether its space has been allocated.
  [[nodiscard]] bool has_storage() const { return has_storage_; }

  /// See Source.
  Result<std::optional<Buffer>> read_stored(uint64_t number) const;
  Result<std::optional<uint64_t>> stored_bytes(uint64_t number) const;
  Result<bool> write_stored(uint64_t number, Bytes stored);

  /// Writing: dataset_write.cc. Nothing, or why chunks cannot be written.
  [[nodiscard]] Result<> writable() const;
  /// Encodes without the LibraryLock, stores with it. See Source::write_chunk().
  Result<> write_chunk(uint64_t number, Bytes chunk);
  /// Gives the stored array the shape that is shown.
  Result<> store_shape();
  /// Writes fill where a chunk is stored.
  Result<> remove_chunk(uint64_t number);
  /// Stores what is encoded already, and sees to it that the index gets this mask. Under the LibraryLock.
  Result<> store_anew(uint64_t number, Bytes encoded, uint32_t filter_mask);
  /// Whether chunks over the edge are stored without filters.
  [[nodiscard]] bool has_raw_partial_chunks() const { return raw_partial_chunks_; }
  /// Whether facts that were read at open have changed, so that the dataset must be opened anew, and what failed must
  /// be asked of that one.
  [[nodiscard]] bool outdated() const { return outdated_; }

 private:
  // The part of the array that a chunk covers.
  struct Region {
    std::vector<uint64_t> coordinates;  // of the chunk in the grid
    std::vector<uint64_t> start;        // in elements
    std::vector<uint64_t> count;        // within the array; at the edge less than the chunk
    uint64_t elements = 1;              // product of count
    uint64_t first = 0;                 // C-order index of the first element
    [[nodiscard]] bool whole(const ChunkGrid& grid) const { return elements == grid.elements_per_chunk(); }
  };
  struct Encoded {
    Buffer bytes;
    StoredChunk chunk;
    Region held;  // see held_part()
  };

  Dataset(SourceFile& file, Handle dataset, std::string name)
      : file_(file), dataset_(std::move(dataset)), epoch_(file.epoch), name_(std::move(name)) {}
  Result<> read_facts();
  Result<> read_filters(hid_t properties);
  Result<> read_grid(hid_t properties);
  Result<> read_fill(hid_t properties);
  Result<> choose_road(hid_t properties);

  [[nodiscard]] Region region_of(uint64_t number) const;
  [[nodiscard]] const std::vector<uint64_t>& stored_shape() const;
  [[nodiscard]] Region held_part(Region region) const;
  [[nodiscard]] bool is_partial(const Region& region) const;
  [[nodiscard]] uint64_t number_in_file(const Region& region) const;
  void fill_beyond(const Region& held, MutableBytes chunk) const;
  [[nodiscard]] Result<StoredChunk> stored_chunk(const Region& region) const;
  Result<> check_current() const;
  Result<> look_at_index() const;
  Result<> look_at_way_to(uint64_t number) const;
  [[nodiscard]] Result<std::vector<uint64_t>> all_stored_chunks() const;
  Result<Encoded> read_encoded(const Region& region, uint64_t chunk_bytes) const;
  Result<Buffer> read_stored(const Region& region) const;
  Result<Buffer> read_piece(const Region& region, uint64_t element, Bytes fill) const;
  Result<Buffer> read_by_library(const Region& region, hid_t type, Bytes fill) const;
  Result<Buffer> read_text(const Region& region) const;
  Result<> store_shape_for(const Region& region);
  Result<> clear_beyond(size_t dimension);
  Result<> clear_chunk(uint64_t number);
  Result<uint64_t> first_allocation() const;
  Result<> store(const Region& region, Bytes encoded, uint32_t filter_mask);
  /// `anew`: the mask that is told of what is stored may not be the one in the index.
  Result<> store_now(const Region& region, Bytes encoded, uint32_t filter_mask, uint64_t allocation, bool anew = false);
  [[nodiscard]] bool is_stored_as_told(const Region& region) const;
  Result<> write_by_library(const Region& region, Bytes chunk);
  Result<> repair_mask(const Region& region, const StoredChunk& before);
  Result<> write_text(const Region& region, Bytes chunk);
  Result<> keep_null_strings(const Region& region, std::vector<const char*>& texts) const;
  void note_change();
  Result<Handle> library_selection(const Region& region, Handle& memory) const;
  Result<> read_at(uint64_t address, MutableBytes to) const;
  Result<Buffer> decode(Buffer stored, uint32_t filter_mask) const;

  SourceFile& file_;
  mutable Handle dataset_;  // see id(); guarded by the LibraryLock
  mutable uint64_t epoch_;  // of the file when dataset_ was last found good; guarded by the LibraryLock
  uint64_t address_ = 0;
  std::string name_;
  Variable facts_;
  MappedType mapped_;
  size_t rank_ = 0;
  bool longer_ = false;         // the shape that is shown was not the stored one at open
  bool direct_ = false;         // which road
  bool has_storage_ = true;     // of unchunked data: whether its space has been allocated
  uint64_t offset_ = 0;         // of contiguous data: bytes from the start of the file
  uint64_t storage_bytes_ = 0;  // of contiguous data
  std::optional<ExternalStorage> external_;
  bool raw_partial_chunks_ = false;  // chunks over the edge are stored without filters
  std::optional<filters::Pipeline> pipeline_;
  std::optional<Error> pipeline_error_;  // why there is none
  mutable std::atomic<bool> outdated_ = false;
  mutable std::vector<uint64_t> stored_shape_;  // where it is longer_; this and the next two guarded by the LibraryLock
  mutable uint64_t stored_epoch_ = UINT64_MAX;  // in which it was so
  mutable uint64_t stored_generation_ = 0;
  mutable bool index_known_ = false;      // it may be walked; guarded by the LibraryLock
  mutable unsigned ways_ = 0;             // in it that were looked at before; the same
  std::optional<uint64_t> stored_count_;  // number of stored chunks, once known; guarded by the LibraryLock
};

}  // namespace codecfs::hdf5
