#pragma once
// Re-encodes a dataset with another filter pipeline.
//
// The object keeps its address, and so all links, references, scales and attributes stay valid: only its storage
// changes. A second, unlinked dataset is created with the new pipeline and filled with the chunks. Then both exchange
// the header messages that define storage and filters, in one transaction, and the second one is removed together with
// the old chunks. libhdf5 has no function for this exchange: it is made to flush and close the file, the headers are
// edited as bytes, and it reopens the file.
//
//   Recoding recoding(file, dataset);
//   recoding.prepare(chain);     // false: it has this pipeline already
//   recoding.copy(progress);
//   recoding.exchange();         // afterwards file.file is another identifier
//
// The new chunks are stored after the old ones, which leave a free block. If the new ones fit into it, a second
// Recoding moves them there without re-encoding, so that a file whose data became smaller does not grow:
//
//   if (recoding.fits_into_hole()) { Recoding packing(file, dataset); packing.prepare_packing(); packing.copy(...); ...
//   }
//
// Only one Recoding per file may exist. Until exchange() returns, readers see no change; if a Recoding is destroyed
// before that, its second dataset is removed.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/api/source.h"
#include "backends/hdf5/format/object_header.h"
#include "backends/hdf5/library/handle.h"
#include "backends/hdf5/source/dataset.h"
#include "backends/hdf5/source/source_file.h"
#include "filters/core/pipeline.h"

namespace codecfs::hdf5 {

class Recoding {
 public:
  /// Both must outlive the Recoding.
  Recoding(SourceFile& file, Dataset& dataset) : file_(file), dataset_(dataset), address_(dataset.address()) {}
  ~Recoding();
  Recoding(const Recoding&) = delete;
  Recoding& operator=(const Recoding&) = delete;

  /// Checks everything that does not require reading chunks, acquires the right to write, and creates the second
  /// dataset. False if there is nothing to do. Errors of Source::set_filters().
  Result<bool> prepare(std::span<const FilterStage> chain);
  /// As prepare(), for moving chunks without re-encoding them.
  Result<> prepare_packing();
  /// As prepare(), for encoding chunks again of which filters were skipped, with the pipeline that is there: copy()
  /// replaces each in its place, and no exchange() follows. False if only libhdf5 encodes them.
  Result<bool> prepare_masked();
  /// After exchange(), under the same LibraryLock: whether the file has grown, and the new chunks fit into the free
  /// block.
  [[nodiscard]] bool fits_into_hole() const;
  /// Stores all chunks in the second dataset, on all cores. Commits periodically, which readers do not notice: the
  /// dataset has no link.
  Result<> copy(Progress& progress);
  /// Under the LibraryLock. Durable when it returns; after an error the file is unchanged.
  Result<> exchange();

 private:
  // Properties that must be equal before and after.
  struct Identity {
    uint64_t attributes = 0;
    uint64_t references = 0;
    Handle type;
    Handle space;
  };
  struct Headers {
    ObjectHeader first;
    ObjectHeader second;
  };
  // The new headers, and the bytes that each needs for the other's messages.
  struct Exchange {
    uint64_t first_needs = 0;
    uint64_t second_needs = 0;
    std::optional<Headers> headers;  // none if a header has no room
  };
  class Numbers;

  Result<bool> prepare_second(const std::vector<FilterStage>& chain);
  Result<> copy_chunk(uint64_t number);
  Result<> encode_masked(uint64_t number);
  Result<> commit_stored(uint64_t bytes);
  Result<> store(uint64_t number, Bytes encoded, uint32_t filter_mask);

  Result<> exchange_storage();
  Result<> check_unchanged() const;
  [[nodiscard]] Result<Identity> identity_of(hid_t dataset) const;
  Result<> verify(hid_t first, hid_t second, const Identity& before) const;
  Result<Headers> read_headers() const;
  Result<> check_headers(const Headers& headers) const;
  Result<Exchange> exchanged(bool comments) const;
  Result<> make_room(hid_t first, const Exchange& exchange) const;
  [[nodiscard]] HeaderMessage no_storage() const;

  SourceFile& file_;
  Dataset& dataset_;
  const uint64_t address_;
  Dataset::FileForm form_;
  Handle second_;
  uint64_t second_address_ = 0;
  FileFormat format_;
  std::vector<FilterStage> chain_;  // of second_, as libhdf5 reports it
  std::optional<filters::Pipeline> pipeline_;
  bool raw_partial_chunks_ = false;  // partial edge chunks are stored without filters
  bool packs_ = false;               // chunks are moved without re-encoding
  bool is_in_place_ = false;         // see prepare_masked()
  uint64_t size_before_ = 0;         // of the file, bytes
  uint64_t uncommitted_ = 0;         // bytes; guarded by the LibraryLock
};

}  // namespace codecfs::hdf5
