#pragma once
// What a Scout and its process say to each other: one datagram for a request, one for its answer, in order.
//
//   request   ScoutRequest, then `text` bytes of text, then 64-bit addresses to the end
//   answer    ScoutAnswer, then the text of an error; with it a descriptor of `bytes` bytes of memory where it has one

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
  open,     // text: the path, a zero byte, the working directory; addresses: of what is known to be damaged
  objects,  // addresses: of those to look at
  links,    // of `address`, and so on
  list,
  find,  // text: the file name
  places,
  numbering,
  name,
  attributes,
  way_to,  // `number`
  index,
  stored_chunks,  // gives them
  chunk,          // `number`; text: the dataset's name; gives it
  everything,
};

struct ScoutRequest {
  ScoutTask task = ScoutTask::open;
  uint32_t text = 0;
  uint64_t address = 0;
  uint64_t number = 0;
  uint32_t netcdf = 0;
  uint32_t for_writing = 0;
  uint32_t strict = 0;  // to die of damage that libhdf5 finds
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

/// False where there is nobody to hear it.
bool send_request(int socket, const ScoutRequest& head, std::string_view text, std::span<const uint64_t> addresses);
bool send_answer(int socket, const Result<ScoutGift>& answer);
/// None where the other end is gone.
std::optional<ReceivedRequest> receive_request(int socket);
std::optional<Result<ScoutGift>> receive_answer(int socket);

}  // namespace codecfs::hdf5
