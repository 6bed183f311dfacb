#pragma once
// An open dataset: its metadata, the locations of its chunks, and their content.
//
// Chunks are read in one of two ways. Direct: libhdf5 returns a chunk's address, the bytes are read with pread and
// decoded with our pipeline, in many threads at once. By library: H5Dread of the chunk's part of the array, one at a
// time, for data that only libhdf5 can assemble (virtual storage, compact data, n-bit and scale-offset, integers with
// padding bits, variable-length strings).
//
// Contiguous and other unchunked storage is divided along the slowest dimensions into pieces of about kPieceBytes, each
// contiguous in C order.
//
// The shown shape may be larger than the stored one (Dimensions::record_shape()); elements beyond the stored shape are
// fill (dataset_shape.cc).
//
// A Dataset is immutable except for members guarded by the LibraryLock. Its functions are thread-safe and take that
// lock themselves.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "backends/hdf5/format/chunk_index.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/metadata/dimensions.h"
#include "backends/hdf5/metadata/shape_facts.h"
#include "backends/hdf5/metadata/type_map.h"
#include "backends/hdf5/source/chunk_layout.h"
#include "backends/hdf5/source/external_storage.h"
#include "backends/hdf5/source/source_file.h"
#include "filters/core/pipeline.h"
#include "model/variable.h"

namespace codecfs::hdf5 {

class Dataset {
 public:
  /// `dataset` must be opened with default access, and has this address in the file; `name` is for messages; `file`
  /// must outlive the Dataset.
  static Result<std::shared_ptr<Dataset>> open(SourceFile& file, Handle dataset, uint64_t address, std::string name);
  /// Sets the shown shape, of the same rank and nowhere smaller than the stored one. Must be called before the Dataset
  /// is shared; only for chunked storage. EOVERFLOW.
  Result<> show_shape(const std::vector<uint64_t>& shape);
  ~Dataset();
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  /// The variable without its attributes and dimension names.
  [[nodiscard]] const Variable& facts() const { return facts_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// libhdf5's identifier. Call it under the LibraryLock; valid until that is released, because the file may be closed
  /// and reopened. Negative if the file no longer has this object; outdated() is then true.
  [[nodiscard]] hid_t id() const;
  /// Address of the object in the file.
  [[nodiscard]] uint64_t address() const { return address_; }
  /// Rank of the dataset itself; facts().grid has more dimensions for array elements, and one for a null dataspace.
  [[nodiscard]] size_t rank() const { return rank_; }

  /// For Dimensions::names(). As id().
  [[nodiscard]] NamedDataset named() const {
    return {.id = id(), .address = address_, .rank = rank_, .grid_rank = facts_.grid.rank()};
  }

  /// See ChunkLayout; another number after each opening.
  [[nodiscard]] uint64_t layout() const { return layout_; }
  Result<ChunkInfo> locate(uint64_t number) const;
  Result<std::vector<uint64_t>> stored_chunks(uint64_t from, size_t limit);
  /// The places of `count` chunks from `first` on, fewer at the end of the grid.
  Result<StoredPlaces> places(uint64_t first, uint64_t count) const;
  /// Reads the encoded bytes of a chunk for ChunkLayout::decode() if it can be read so; none if fetch_chunk() must be
  /// called. ENOENT if it is not stored.
  Result<std::optional<FetchedChunk>> fetch_encoded(uint64_t number) const;
  Result<DecodedChunk> fetch_chunk(uint64_t number) const;

  /// The form of a chunk in the file before the first filter: elements of the file's datatype, with unresolved
  /// references to the file's heaps.
  struct FileForm {
    Handle type;                                // of the file; must be destroyed under the LibraryLock
    uint64_t element = 0;                       // bytes in the file of one presented element
    filters::ChunkShape shape;                  // its size is always known
    std::vector<std::byte> fill;                // one element, or a byte of zeros
    std::optional<filters::Pipeline> pipeline;  // none: libhdf5 must read (n-bit, scale-offset, compact storage)
  };
  /// EOPNOTSUPP if chunks are not available in this form; EIO if a filter is missing.
  Result<FileForm> file_form() const;
  /// Reads a chunk in that form; edge chunks are padded. ENOENT if it is not stored.
  Result<Buffer> read_file_form(uint64_t number, const FileForm& form) const;
  /// Reads the encoded bytes of a chunk and their filter mask.
  Result<filters::EncodedChunk> read_as_stored(uint64_t number, const FileForm& form) const;
  /// Whether the chunk extends beyond the stored array.
  [[nodiscard]] bool is_partial_chunk(uint64_t number) const { return is_partial(region_of(number)); }
  /// For unchunked data: whether its space is allocated.
  [[nodiscard]] bool has_storage() const { return has_storage_; }

  /// See Source::read_stored().
  Result<std::optional<Buffer>> read_stored(uint64_t number) const;
  Result<std::optional<uint64_t>> stored_bytes(uint64_t number) const;
  Result<bool> write_stored(uint64_t number, Bytes stored);

  /// Writing: dataset_write.cc. Returns why chunks cannot be written, if so.
  [[nodiscard]] Result<> writable() const;
  /// Encodes without the LibraryLock and stores with it. See Source::write_chunk().
  Result<> write_chunk(uint64_t number, Bytes chunk);
  /// Stores a whole chunk that was encoded by this chain. False if the chain is another one, or if the chunk is stored
  /// in another form: then write_chunk() must be called.
  Result<bool> write_encoded(uint64_t number, std::span<const FilterStage> chain, uint32_t filter_mask, Bytes encoded);
  /// Whether chunks are encoded without libhdf5, except for partial ones that are stored without filters.
  [[nodiscard]] bool is_direct() const { return facts_.storage == Storage::chunked && direct_ && !mapped_.text; }
  /// Changes the stored shape to the shown one.
  Result<> store_shape();
  /// Whether it was shown with another shape than the stored one when it was opened.
  [[nodiscard]] bool is_longer() const { return longer_; }
  /// Overwrites a stored chunk with fill.
  Result<> remove_chunk(uint64_t number);
  /// Stores a chunk whole of which only the part in the array is stored. EOPNOTSUPP: libhdf5 cannot do that here.
  Result<> store_whole(uint64_t number);
  /// Stores encoded bytes, and ensures that the chunk index gets this filter mask. Under the LibraryLock.
  Result<> store_recoded(uint64_t number, Bytes encoded, uint32_t filter_mask);
  /// Whether partial edge chunks are stored without filters.
  [[nodiscard]] bool has_raw_partial_chunks() const { return raw_partial_chunks_; }
  /// Whether metadata that was read at open has changed: the dataset must be reopened, and a failed operation repeated.
  [[nodiscard]] bool outdated() const { return outdated_; }

 private:
  // The part of the array that a chunk covers.
  struct Region {
    std::vector<uint64_t> coordinates;  // of the chunk in the grid
    std::vector<uint64_t> start;        // in elements
    std::vector<uint64_t> count;        // within the array; less than the chunk's at the edge
    uint64_t elements = 1;              // product of count
    uint64_t first = 0;                 // C-order index of the first element
    [[nodiscard]] bool whole(const ChunkGrid& grid) const { return elements == grid.elements_per_chunk(); }
  };
  struct Encoded {
    Buffer bytes;
    StoredChunk chunk;
    Region valid;  // see valid_part()
  };

  Dataset(SourceFile& file, Handle dataset, std::string name)
      : file_(file), dataset_(std::move(dataset)), epoch_(file.epoch), name_(std::move(name)) {}
  Result<> read_facts();
  Result<> read_filters(hid_t properties);
  Result<> read_grid(hid_t properties);
  Result<> read_fill(hid_t properties);
  Result<> choose_read_path(hid_t properties);

  [[nodiscard]] Region region_of(uint64_t number) const;
  [[nodiscard]] const std::vector<uint64_t>& stored_shape() const;
  [[nodiscard]] Region valid_part(Region region) const;
  [[nodiscard]] bool is_partial(const Region& region) const;
  [[nodiscard]] bool is_direct(const Region& region) const {
    return is_direct() && !(raw_partial_chunks_ && is_partial(region));
  }
  void fill_beyond(const Region& valid, MutableBytes chunk) const;
  [[nodiscard]] Result<StoredChunk> stored_chunk(const Region& region) const;
  Result<> check_current() const;
  Result<Encoded> read_encoded(const Region& region, uint64_t chunk_bytes) const;
  Result<DecodedChunk> fetch_stored(const Region& region) const;
  Result<Buffer> read_values(const Region& region) const;
  Result<Buffer> read_piece(const Region& region, uint64_t element, Bytes fill) const;
  Result<Buffer> read_by_library(const Region& region, hid_t type, Bytes fill) const;
  Result<Buffer> read_text(const Region& region) const;
  Result<> store_shape_for(const Region& region);
  Result<> clear_beyond(size_t dimension);
  Result<> clear_chunk(uint64_t number);
  Result<> store_partial(const Region& region, Bytes chunk);
  Result<bool> has_allocated(const Region& region) const;
  Result<uint64_t> first_allocation(const Region& region) const;
  Result<> store(const Region& region, Bytes encoded, uint32_t filter_mask);
  /// `rewrite_mask`: the index may contain another mask than stored_chunk() returns, so write it in any case.
  Result<> store_now(const Region& region, Bytes encoded, uint32_t filter_mask, uint64_t allocation,
                     bool rewrite_mask = false);
  [[nodiscard]] Result<StoredPlace> place_of(uint64_t number) const;
  [[nodiscard]] bool is_decodable(const Region& region) const;
  [[nodiscard]] bool has_exact_encoding(const Region& region) const;
  Result<> write_by_library(const Region& region, Bytes chunk);
  Result<> repair_mask(const Region& region, const StoredChunk& before);
  Result<> write_text(const Region& region, Bytes chunk);
  Result<> keep_equal_strings(const Region& region, std::vector<const char*>& texts,
                              std::deque<std::string>& kept) const;
  void note_change();
  Result<Handle> library_selection(const Region& region, Handle& memory) const;
  Result<> read_at(uint64_t address, MutableBytes to) const;
  Result<Buffer> decode(Encoded&& stored) const;

  SourceFile& file_;
  mutable Handle dataset_;  // see id(); guarded by the LibraryLock
  mutable uint64_t epoch_;  // of the file when dataset_ was last validated; guarded by the LibraryLock
  uint64_t address_ = 0;
  const uint64_t layout_ = ++file_.shared->layouts;  // its number
  std::string name_;
  Variable facts_;
  MappedType mapped_;
  uint64_t stored_element_ = 0;  // bytes of an element in memory, as libhdf5 has it
  size_t rank_ = 0;
  bool longer_ = false;         // the shown shape differed from the stored one at open
  bool direct_ = false;         // read without libhdf5
  bool has_storage_ = true;     // for unchunked data: its space is allocated
  uint64_t offset_ = 0;         // of contiguous data: bytes from the start of the file
  uint64_t storage_bytes_ = 0;  // of contiguous data
  std::optional<ExternalStorage> external_;
  bool raw_partial_chunks_ = false;                // partial edge chunks are stored without filters
  bool allocates_all_ = false;                     // the first write allocates all chunks (early or late allocation)
  mutable uint64_t allocated_epoch_ = UINT64_MAX;  // of the file when they were; guarded by the LibraryLock
  std::optional<filters::Pipeline> pipeline_;
  std::optional<Error> pipeline_error_;  // why pipeline_ is empty
  mutable std::atomic<bool> outdated_ = false;
  mutable std::vector<uint64_t> stored_shape_;  // if longer_; this and the next two guarded by the LibraryLock
  mutable uint64_t stored_epoch_ = UINT64_MAX;  // for which stored_shape_ is valid
  mutable uint64_t stored_generation_ = 0;
  std::optional<uint64_t> stored_count_;  // number of stored chunks, once known; guarded by the LibraryLock
};

}  // namespace codecfs::hdf5
