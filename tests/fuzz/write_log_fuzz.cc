// Any bytes as the write-ahead log of a small file. If the first byte requests it, the header is corrected for that
// file, so that the frames are parsed. The log is refused with a reason, or the file is read and recovered, and the
// recovered content must be equal to what was read.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "backends/hdf5/wal/write_log.h"
#include "backends/hdf5/wal/write_log_format.h"
#include "base/endian.h"
#include "base/log.h"
#include "require.h"

namespace {

using namespace codecfs;
using namespace codecfs::hdf5;

constexpr std::byte kOriginal{0x5a};
constexpr uint64_t kLargest = uint64_t{8} << 20;  // maximum size of the file that a log may declare

void check_error(const Error& error) { require(error.code != 0 && !error.reason.empty(), "an error has a reason"); }

const std::string& directory() {
  static const std::string path = [] {
    std::string name = std::filesystem::temp_directory_path() / "codecfs-fuzz-XXXXXX";
    require(::mkdtemp(name.data()) != nullptr, "a directory");
    return name;
  }();
  return path;
}

void write_file(const std::string& path, Bytes bytes) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  require(fd && ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "a file");
}

/// Sets the correct salt, numbers and checksums of frames; the rest is the input's.
void make_right(std::vector<std::byte>& log, const File& source) {
  const auto identity = identify(source);
  require(identity.has_value(), "an identity");
  constexpr uint64_t kSalt = 0x1122334455667788;
  const HeaderBytes header = encode_header({.salt = kSalt, .source = *identity});
  log.resize(std::max(log.size(), header.size()));
  std::ranges::copy(header, log.begin());
  uint64_t checksum = first_checksum(kSalt);
  uint64_t sequence = 1;
  for (size_t at = kLogHeaderBytes; at + kFrameHeaderBytes <= log.size(); ++sequence) {
    const auto byte = [&](size_t i) { return std::to_integer<uint64_t>(log[at + i]); };
    Frame frame{static_cast<FrameKind>(byte(0) % 4), sequence, 0, 0};
    if (frame.kind != FrameKind::commit) std::memcpy(&frame.offset, log.data() + at + 24, sizeof frame.offset);
    if (byte(1) % 8 != 0) frame.offset %= 16384;
    const size_t room = log.size() - at - kFrameHeaderBytes;
    if (frame.kind == FrameKind::data) frame.length = 1 + byte(2) % 64;
    // If there is room, sets the checksums of replaced pieces; all bytes of the source are equal.
    const uint64_t replaced = replaced_pieces(frame, {.source = *identity}) * sizeof(uint64_t);
    if (replaced + frame.length > room) break;
    uint64_t piece_at = frame.offset;
    for (uint64_t i = 0; i < replaced; i += sizeof(uint64_t)) {
      const uint64_t end = std::min({frame.end(), identity->size, (piece_at / kSectorBytes + 1) * kSectorBytes});
      const std::vector<std::byte> piece(end - piece_at, kOriginal);
      store_le(log.data() + at + kFrameHeaderBytes + i, continue_checksum(0, piece));
      piece_at = end;
    }
    const Bytes covered(log.data() + at + kFrameHeaderBytes, replaced + frame.length);
    const FrameBytes bytes = encode_frame(frame, kSalt, covered.first(replaced), covered.subspan(replaced), checksum);
    std::ranges::copy(bytes, log.begin() + static_cast<ptrdiff_t>(at));
    at += kFrameHeaderBytes + replaced + frame.length;
  }
}

std::vector<std::byte> contents(const LoggedFile& file) {
  std::vector<std::byte> bytes(std::min(file.size(), kLargest));
  const auto count = file.read(0, bytes);
  if (!count) {
    check_error(count.error());
    return {};
  }
  require(*count == bytes.size(), "a file has the size that it tells");
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  log::set_level(log::Level::error);
  if (size == 0) return 0;
  const std::string source = directory() + "/source";
  const std::string log_path = directory() + "/" + log_name_for("source");
  const std::vector<std::byte> original(5000, kOriginal);
  write_file(source, original);
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(input.begin() + 1, input.end());
  if (data[0] % 4 != 0)
    make_right(bytes, File{.fd = UniqueFd(::open(source.c_str(), O_RDONLY | O_CLOEXEC)), .path = source});
  write_file(log_path, bytes);

  std::vector<std::byte> shown;
  uint64_t shown_size = 0;
  {
    const auto file = LoggedFile::open(source);
    if (!file) {
      check_error(file.error());
      return 0;
    }
    shown = contents(**file);
    shown_size = (*file)->size();
  }
  if (shown_size > kLargest) return 0;  // recovery would write a huge sparse file
  if (const auto recovered = recover_log(source); !recovered) {
    check_error(recovered.error());
    return 0;
  }
  const auto again = LoggedFile::open(source);
  require(again.has_value(), "what was recovered can be opened");
  require(contents(**again) == shown, "recovery brings what was shown before");
  return 0;
}
