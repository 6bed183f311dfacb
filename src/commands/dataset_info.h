#pragma once
// What `codecfs info` tells about a dataset: its variables with their types, shapes, filters and sizes.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "base/result.h"
#include "commands/readers.h"
#include "model/json_value.h"
#include "model/variable.h"

namespace codecfs::commands {

struct VariableInfo {
  VariablePtr facts;           // null if there is an `error`
  std::optional<Error> error;  // why it cannot be read
  uint64_t stored_chunks = 0;  // those of facts->grid that are stored
  uint64_t stored_bytes = 0;   // of these
  uint64_t masked_chunks = 0;  // of these: those of which HDF5 skipped filters
  uint64_t decoded_bytes = 0;  // of the whole array; 0 for elements of variable length; UINT64_MAX: that or more
  std::vector<Error> missing;  // one for each filter that is not there, with what to install
};

struct NodeDetails;  // dataset_details.h

/// A line of the tree.
struct InfoNode {
  std::string path;
  Entry entry;
  std::optional<Error> error;            // of a group that cannot be listed, or of a member that cannot be read
  std::optional<VariableInfo> variable;  // of variables
  /// Of groups and variables, after read_details().
  std::shared_ptr<const NodeDetails> details = nullptr;
};

struct DatasetInfo {
  std::string source;  // as the user named it
  std::string format;
  uint64_t source_bytes = 0;    // of a file; 0: a directory
  std::vector<InfoNode> nodes;  // parents first; the first is the root, or what was asked for
};

/// Reads the metadata of everything in the source, or of the object at `path` and below it, and looks up all stored
/// chunks, on all cores: with libhdf5, which uses one, only if `open_again` opens the source once more. Errors of
/// single variables are part of the result. ECANCELED, errors of find_path().
Result<DatasetInfo> read_info(Source& source, const std::string& name, const std::string& path = "",
                              const OpenAgain& open_again = {});

/// As read_info(), of one variable, and not ended by an interruption.
Result<VariableInfo> read_variable(Source& source, ObjectId variable);

/// The name of a filter, also where it is not installed.
std::string filter_name(const FilterStage& stage);
/// The pipeline for people: "shuffle,4|zstd,3"; "none".
std::string filters_text(const std::vector<FilterStage>& filters);
/// The type for people: "float32", "{x: int8, y: float64[3]}".
std::string type_text(const Variable& variable);
std::string type_text(const DataType& type);

/// As a tree with a line for each node, for a terminal of `width` columns (0: no limit), with colours or without.
std::string info_text(const DatasetInfo& info, size_t width, bool colours);
/// One variable with its attributes, a line for each fact, for such a terminal.
std::string variable_text(const InfoNode& node, const Variable& described, size_t width);

}  // namespace codecfs::commands
