#pragma once
// Storing a dataset anew with another chain of filters.
//
// The object keeps its address, and with it all that refers to it or hangs on it (links, references, scales,
// attributes): only its storage changes. A second dataset without a name is made with the new chain and filled with the
// chunks; then the two exchange those messages of their headers that say where data is and how it is filtered, as one
// transaction; and the second one is removed together with the old chunks. libhdf5 knows no such exchange: it is made
// to write all that it holds and to close the file, the headers are edited as bytes, and it opens the file again.
//
//   Recoding recoding(file, dataset);
//   recoding.prepare(chain);     // false: it is stored so already
//   recoding.copy(progress);
//   recoding.exchange();         // afterwards file.file is another identifier
//
// The new chunks lie behind the old ones, which leave a hole. Where they fit into it they are moved there by another
// Recoding, as they are, so that a file whose data became smaller does not grow:
//
//   if (recoding.fits_into_hole()) { Recoding packing(file, dataset); packing.prepare_packing(); packing.copy(...); ...
//   }
//
// One at a time for a file. Until exchange() has returned nobody sees anything of it; when a Recoding is destroyed
// before that, what it made is gone.

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
  /// Both outlive it.
  Recoding(SourceFile& file, Dataset& dataset) : file_(file), dataset_(dataset), address_(dataset.address()) {}
  ~Recoding();
  Recoding(const Recoding&) = delete;
  Recoding& operator=(const Recoding&) = delete;

  /// Checks everything that can be known before the first chunk is read, takes the right to write, and makes the second
  /// dataset. False where there is nothing to do. Errors as of Source::set_filters().
  Result<bool> prepare(std::span<const FilterStage> chain);
  /// The same for chunks that are to lie elsewhere and stay what they are.
  Result<> prepare_packing();
  /// After exchange(), under the same LibraryLock: whether the file has grown, and would not have.
  [[nodiscard]] bool fits_into_hole() const;
  /// Stores all chunks in the second dataset, on all cores. Commits now and then: without a name, it is no change.
  Result<> copy(Progress& progress);
  /// Under the LibraryLock. Durable when it returns; after an error the file is as before.
  Result<> exchange();

 private:
  // What must be the same afterwards.
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
  // The headers as they will be, and the bytes that each needs for what comes from the other one.
  struct Exchange {
    uint64_t first_needs = 0;
    uint64_t second_needs = 0;
    std::optional<Headers> headers;  // none where there is no room
  };
  class Numbers;

  Result<bool> prepare_second(const std::vector<FilterStage>& chain);
  Result<> copy_chunk(uint64_t number);
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
  std::vector<FilterStage> chain_;  // of second_, as libhdf5 tells it
  std::optional<filters::Pipeline> pipeline_;
  bool raw_partial_chunks_ = false;  // stored without filters
  bool packs_ = false;               // chunks stay as they are
  uint64_t size_before_ = 0;         // of the file, bytes
  uint64_t uncommitted_ = 0;         // bytes; guarded by the LibraryLock
};

}  // namespace codecfs::hdf5
