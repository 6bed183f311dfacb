#include "base/rpc/message.h"

#include "base/terminal_text.h"

namespace codecfs::rpc {

std::string_view Decoder::take(size_t size) {
  if (failed_ || size > head_.size()) {
    failed_ = true;
    return {};
  }
  const std::string_view bytes = head_.substr(0, size);
  head_.remove_prefix(size);
  return bytes;
}

void Decoder::read(Buffer& bytes) {
  auto copied = Buffer::copy_of(std::exchange(bulk_, {}));
  if (copied)
    bytes = *std::move(copied);
  else
    failed_ = true;
}

void Decoder::read(Error& error) {
  constexpr int kMax = 4095;  // of an errno
  get(error.code);
  error.reason = printable(get<std::string_view>());
  if (error.code <= 0 || error.code > kMax) failed_ = true;
}

}  // namespace codecfs::rpc
