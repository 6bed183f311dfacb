#pragma once
// The protocol between a Scout and its process: one datagram per request and one per answer, in order.
//
//   request   ScoutRequest, then `text` bytes of text, then 64-bit addresses to the end
//   answer    ScoutAnswer, then the text of an error; with a descriptor for `bytes` bytes of shared memory if there is
//   a result

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::hdf5 {

enum class ScoutTask : uint32_t {
  open,     // text: the path, a zero byte, the working directory; addresses: known damaged objects
  objects,  // addresses: the objects to check
  links,    // of `address`, as the following tasks
  list,
  find,  // text: the file name
  places,
  numbering,
  name,
  attributes,
  way_to,  // `number`
  index,
  stored_chunks,  // returns them
  chunk,          // `number`; text: the dataset's name; returns the decoded chunk
  everything,
};

struct ScoutRequest {
  ScoutTask task = ScoutTask::open;
  uint32_t text = 0;
  uint64_t address = 0;
  uint64_t number = 0;
  uint32_t netcdf = 0;
  uint32_t for_writing = 0;
  uint32_t strict = 0;  // exit if libhdf5 reports damage
  uint32_t unused = 0;
};

struct ScoutAnswer {
  int64_t code = 0;  // an errno value
  uint64_t bytes = 0;
};

inline constexpr size_t kLongestMessage = size_t{64} << 10;  // bytes

struct ReceivedRequest {
  ScoutRequest head;
  std::string text;
  std::vector<uint64_t> addresses;
};
using ScoutGift = std::optional<Buffer>;

/// False if the other end is closed.
bool send_request(int socket, const ScoutRequest& head, std::string_view text, std::span<const uint64_t> addresses);
bool send_answer(int socket, const Result<ScoutGift>& answer);
/// None if the other end is closed.
std::optional<ReceivedRequest> receive_request(int socket);
std::optional<Result<ScoutGift>> receive_answer(int socket);

}  // namespace codecfs::hdf5
