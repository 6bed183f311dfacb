#pragma once
// An HDF5 file as a Source in a process of its own (backends/worker), which may be killed at any time: what was
// sealed is in the log, not necessarily synced, and the next such process continues where this one ended.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/api/source.h"
#include "backends/hdf5/source/chunk_layout.h"
#include "backends/hdf5/source/shared_state.h"
#include "backends/hdf5/wal/fetched_file.h"
#include "base/file_io.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "filters/core/pipeline.h"

namespace codecfs::hdf5 {

class IsolatedSource : public Source {
 public:
  /// See Dataset::places() and Dataset::fetch_encoded().
  virtual Result<StoredPlaces> places(ObjectId variable, uint64_t first, uint64_t count) = 0;
  virtual Result<std::optional<FetchedChunk>> fetch_encoded(ObjectId variable, uint64_t number) = 0;
  /// The number of the variable's present ChunkLayout, with its facts.
  struct Layout {
    uint64_t number = 0;
    std::string name;  // for messages
    VariablePtr facts;
    bool is_direct = false;  // chunks may be encoded for write_encoded()
  };
  virtual Result<Layout> layout(ObjectId variable) = 0;
  /// See Dataset::write_encoded().
  virtual Result<bool> write_encoded(ObjectId variable, uint64_t number, std::span<const FilterStage> chain,
                                     uint32_t filter_mask, Bytes encoded) = 0;
  /// Chunks of one variable, whose bytes follow each other.
  struct ManyChunks {
    std::vector<uint64_t> numbers;
    std::vector<uint64_t> sizes;
    // The pipeline and the masks of encoded chunks; other chunks have no masks.
    std::vector<FilterStage> chain;
    std::vector<uint32_t> filter_masks;
  };
  /// write_encoded(), or write_chunk(), of the first of them, until one cannot be stored. Returns how many were.
  virtual Result<uint64_t> write_many(ObjectId variable, const ManyChunks& chunks, Bytes bytes) = 0;
  /// What summarize() would answer, read without libhdf5's objects; none: it must be asked.
  virtual std::optional<VariableSummary> quick_summary(ObjectId variable) = 0;
  /// See find_newer_form(). Without libhdf5.
  virtual std::optional<std::string> newer_form(uint64_t address) = 0;
  /// Changes of chunks survive this process from now on, not necessarily a power failure. Changes of the tree and
  /// commits do so when they return.
  virtual Result<> seal() = 0;
  /// The number of the next change of the tree, for SharedState::edit. No other change of the tree may run until it has
  /// returned. Whether it was made already, by a process that was killed before it could say so.
  virtual bool begin_edit(uint64_t edit) = 0;
};

/// What outlives the process.
struct IsolatedState {
  std::shared_ptr<SharedState> shared;
  UniqueFd journal;                             // see NodeJournal
  std::unordered_map<uint64_t, Error> damaged;  // objects that must not be accessed, by address
  std::shared_ptr<FetchedFile> fetched;         // the file, if it is no local one
  bool latest = false;                          // Hdf5Options::latest
};

/// As open_hdf5(). Records accesses with note_access().
Result<std::unique_ptr<IsolatedSource>> open_isolated(const std::string& path, bool may_write, IsolatedState state,
                                                      FileIo& io = real_file_io());

}  // namespace codecfs::hdf5
