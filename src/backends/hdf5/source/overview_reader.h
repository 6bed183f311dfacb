#pragma once
// Describes the datasets of an HDF5 file without opening them in libhdf5, which takes ten times as long: for code that
// describes many of them. It reads object headers and chunk indexes itself; only datatypes are decoded by libhdf5, each
// once.
//
// All or nothing for each object: whatever is not known exactly (shared messages, committed types, attributes in a
// heap, virtual and external data, versions and flags that are not listed here, checksums that do not fit) makes the
// answer none, and the caller asks libhdf5. Only for local files that are not being written, with addresses of 8 bytes
// and without a user block.
//
// All calls under the LibraryLock.

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/api/variable_summary.h"
#include "backends/hdf5/format/object_header.h"
#include "backends/hdf5/metadata/object_tree.h"
#include "backends/hdf5/overview/file_window.h"
#include "backends/hdf5/overview/index_sizes.h"
#include "backends/hdf5/overview/messages.h"
#include "backends/hdf5/source/source_file.h"

namespace codecfs::hdf5 {

class OverviewReader {
 public:
  /// Null if the file is to be read by libhdf5 alone. `file`: open; must outlive the result.
  static std::unique_ptr<OverviewReader> make(const SourceFile& file, bool is_netcdf);

  std::optional<ObjectTree::Outline> outline(uint64_t address);
  /// As summarize(); `name`: of the object, for messages in it.
  std::optional<VariableSummary> summary(uint64_t address, const std::string& name);

 private:
  /// A datatype as map_type() maps it.
  struct KnownType {
    DataType type;
    std::vector<uint64_t> shape;
    std::vector<EndedString> ended;
    bool converts = false;
    bool text = false;
    std::optional<Error> unreadable;
    std::string type_text;
    std::string zarr3_name;
    JsonValue stored_type;
    uint64_t bytes = 0;         // in memory
    uint64_t stored_bytes = 0;  // in the file
  };
  struct Dataset {
    Bytes type;
    Dataspace space;
    FillMessage fill;
    LayoutMessage layout;
    std::vector<FilterStage> filters;
    std::vector<AttributeMessage> attributes;
  };

  /// `file_bytes`: libhdf5 reads nothing beyond them.
  OverviewReader(const SourceFile& file, uint64_t file_bytes, bool is_netcdf, uint64_t tree_entries);
  std::optional<ObjectHeader> read_header(uint64_t address);
  const KnownType* type_of(Bytes encoded);
  std::optional<Dataset> parse(uint64_t address, const ObjectHeader& header);
  bool set_fill(Variable& facts, const Dataset& dataset, const KnownType& type);
  bool set_totals(VariableSummary& summary, const Variable& facts, const Dataset& dataset, const KnownType& type);

  const SourceFile& file_;
  const bool is_netcdf_;
  FileWindow window_;
  IndexSizes indexes_;
  std::unordered_map<std::string, std::optional<KnownType>> types_;  // by their encoded bytes; none: not valid
  size_t type_bytes_ = 0;                                            // of the keys of `types_`
};

}  // namespace codecfs::hdf5
