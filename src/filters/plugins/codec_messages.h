#pragma once
// The calls between the daemon and a codec worker. A request's head is a RequestHead and the arguments of its task; its
// bulk is what a filter gets. An answer's kind is the serial number of its request; its head is an AnswerHead and
// the results, its bulk what a filter returned. Both are written by MessageWriter and read, in the same order, by
// MessageReader.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "filters/plugins/plugin_calls.h"

namespace codecfs::filters {

/// The kinds of requests, with their arguments and results.
enum class CodecTask : uint32_t {
  load = 1,             // path, path in messages -> description, SandboxParts; must be the first, and once
  filter,               // flags, most, parameters -> none
  parameters_of,        // codec, text -> parameters
  codec_of,             // codec, parameters -> text
  modified_parameters,  // codec, parameters, chunk -> visible parameters, working ones
  prepare_dataset,      // DatasetToPrepare -> parameters
  finalize,             // none -> none; the worker then ends
};

/// A dataset that is created with an HDF5 filter: the arguments of its can_apply and set_local.
struct DatasetToPrepare {
  bool only_check = false;  // can_apply instead of set_local
  uint32_t flags = 0;       // of the filter
  std::vector<uint32_t> parameters;
  std::string type;  // by H5Tencode
  std::vector<uint64_t> shape;
  std::vector<uint64_t> chunks;
};

struct RequestHead {
  uint32_t serial = 0;
  uint32_t seconds = 0;  // of processor time; 0: no limit
  uint64_t memory = 0;   // bytes; 0: no limit
};

struct AnswerHead {
  int code = 0;  // errno; 0: the call succeeded, and the results follow
  std::string reason;
};

class MessageWriter {
 public:
  MessageWriter& number(uint64_t value);
  MessageWriter& text(std::string_view value);
  MessageWriter& numbers(std::span<const uint64_t> values);
  MessageWriter& parameters(std::span<const uint32_t> values);
  MessageWriter& chunk(const ChunkShape& value);  // of its type only what netcdf_host.h needs
  MessageWriter& dataset(const DatasetToPrepare& value);
  MessageWriter& description(const PluginDescription& value);
  MessageWriter& head(const RequestHead& value);
  MessageWriter& head(const AnswerHead& value);
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Returns empty values once the message is too short. Never allocates more than the message has bytes.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}
  uint64_t number();
  std::string text();
  std::vector<uint64_t> numbers();
  std::vector<uint32_t> parameters();
  ChunkShape chunk();
  DatasetToPrepare dataset();
  PluginDescription description();
  RequestHead request_head();
  AnswerHead answer_head();
  /// Whether all values were in the message.
  [[nodiscard]] bool is_valid() const { return is_valid_; }

 private:
  std::string_view take(uint64_t count);

  std::string_view rest_;
  bool is_valid_ = true;
};

}  // namespace codecfs::filters
