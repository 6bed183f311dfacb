#include "backends/hdf5/wal/write_log_format.h"

#include <lzma.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/endian.h"
#include "base/file_io.h"
#include "base/file_name.h"

namespace codecfs::hdf5 {
namespace {

constexpr char kMagic[] = "CODECFSW";
constexpr uint32_t kCheckpointBegun = 1;
constexpr size_t kHeaderChecksumAt = 504;
constexpr size_t kFrameChecksumAt = 40;

constexpr std::string_view kPrefix = ".";
constexpr std::string_view kSuffix = ".codecfs-wal";
constexpr char kCut = '~';
constexpr size_t kHashBytes = 1 + 16;

uint64_t field(Bytes bytes, size_t at) { return load_le<uint64_t>(bytes.data() + at); }

}  // namespace

std::string log_name_for(const std::string& source_name) {
  return fitted_name(kPrefix, source_name, kSuffix, continue_checksum(0, std::as_bytes(std::span(source_name))));
}

std::string rescue_draft_for(const std::string& log_name) {
  return log_name.substr(0, log_name.size() - kSuffix.size()) + ".codecfs-tmp";
}

std::string rescue_stem_for(const std::string& log_name) {
  return log_name.substr(kPrefix.size(), log_name.size() - kPrefix.size() - kSuffix.size());
}

bool is_log_name(const std::string& name) {
  return name.size() > kPrefix.size() + kSuffix.size() && name.starts_with(kPrefix) && name.ends_with(kSuffix) &&
         name.find('/') == name.npos;
}

std::string source_name_for(const std::string& log_name) {
  if (!is_log_name(log_name)) return {};
  const std::string name = log_name.substr(kPrefix.size(), log_name.size() - kPrefix.size() - kSuffix.size());
  const size_t hash_at = name.size() < kHashBytes ? name.npos : name.size() - kHashBytes;
  const bool may_be_cut = hash_at != name.npos && name[hash_at] == kCut && log_name.size() > NAME_MAX - 4;
  return may_be_cut ? std::string() : name;
}

uint64_t continue_checksum(uint64_t checksum, Bytes bytes) {
  return lzma_crc64(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), checksum);
}

Result<SourceIdentity> identify(const File& source) {
  struct stat status;
  if (::fstat(source.fd.get(), &status) != 0) return fail_errno(errno, "{}", source.path);
  std::array<std::byte, kSourceHeadBytes> head;
  CODECFS_ASSIGN(const size_t count, read_at(source, 0, head));
  return SourceIdentity{
      .device = status.st_dev,
      .inode = status.st_ino,
      .size = static_cast<uint64_t>(status.st_size),
      .mtime = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec,
      .head = continue_checksum(0, Bytes(head).first(count)),
  };
}

HeaderBytes encode_header(const LogHeader& header) {
  HeaderBytes bytes{};
  std::memcpy(bytes.data(), kMagic, 8);
  store_le<uint32_t>(bytes.data() + 8, header.version);
  store_le<uint32_t>(bytes.data() + 12, header.checkpoint != 0 ? kCheckpointBegun : 0);
  store_le<uint64_t>(bytes.data() + 16, header.salt);
  store_le<uint64_t>(bytes.data() + 24, header.source.device);
  store_le<uint64_t>(bytes.data() + 32, header.source.inode);
  store_le<uint64_t>(bytes.data() + 40, header.source.size);
  store_le<uint64_t>(bytes.data() + 48, static_cast<uint64_t>(header.source.mtime));
  store_le<uint64_t>(bytes.data() + 56, header.source.head);
  store_le<uint64_t>(bytes.data() + 64, header.checkpoint);
  store_le<uint64_t>(bytes.data() + 72, header.id);
  store_le<uint64_t>(bytes.data() + kHeaderChecksumAt, continue_checksum(0, Bytes(bytes).first(kHeaderChecksumAt)));
  return bytes;
}

Result<std::optional<LogHeader>> decode_header(Bytes bytes, const std::string& path) {
  if (bytes.size() < kLogHeaderBytes) return std::nullopt;
  bytes = bytes.first(kLogHeaderBytes);
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; })) return std::nullopt;
  if (std::memcmp(bytes.data(), kMagic, 8) != 0) {
    return fail(EUCLEAN,
                "{}: is not a log of codecfs, or its header is damaged; the file beside it is not changed "
                "while the log exists",
                path);
  }
  // Check the version before the checksum, whose position may differ in other versions.
  const auto version = load_le<uint32_t>(bytes.data() + 8);
  if (version == 0 || version > kLogFormatVersion) {
    return fail(ENOTSUP,
                "{}: a log of format version {}, but this codecfs supports only versions up to {}; recover it with the "
                "codecfs that wrote it",
                path, version, kLogFormatVersion);
  }
  const auto flags = load_le<uint32_t>(bytes.data() + 12);
  LogHeader header;
  header.version = version;
  header.id = field(bytes, 72);
  header.salt = field(bytes, 16);
  header.source.device = field(bytes, 24);
  header.source.inode = field(bytes, 32);
  header.source.size = field(bytes, 40);
  header.source.mtime = static_cast<int64_t>(field(bytes, 48));
  header.source.head = field(bytes, 56);
  header.checkpoint = field(bytes, 64);
  const bool consistent =
      flags == (header.checkpoint != 0 ? kCheckpointBegun : 0) && header.source.size <= kLargestOffset;
  if (field(bytes, kHeaderChecksumAt) != continue_checksum(0, bytes.first(kHeaderChecksumAt)) || !consistent) {
    return fail(EUCLEAN,
                "{}: the header of the log is damaged; the file beside it is not changed while the log "
                "exists",
                path);
  }
  return header;
}

Result<uint64_t> new_salt() {
  uint64_t salt = 0;
  ssize_t count = 0;
  do {
    count = ::getrandom(&salt, sizeof salt, 0);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof salt)) return fail_errno(count < 0 ? errno : EIO, "no random numbers");
  return salt;
}

uint64_t first_checksum(uint64_t salt) {
  std::array<std::byte, sizeof salt> bytes;
  store_le(bytes.data(), salt);
  return continue_checksum(0, bytes);
}

uint64_t replaced_pieces(const Frame& frame, const LogHeader& header) {
  if (header.version < 2 || frame.kind != FrameKind::data || frame.offset >= header.source.size) return 0;
  const uint64_t end = std::min(frame.end(), header.source.size);
  return (end - 1) / kSectorBytes - frame.offset / kSectorBytes + 1;
}

FrameBytes encode_frame(const Frame& frame, uint64_t salt, Bytes replaced, Bytes payload, uint64_t& checksum) {
  FrameBytes bytes{};
  store_le<uint32_t>(bytes.data(), static_cast<uint32_t>(frame.kind));
  store_le<uint64_t>(bytes.data() + 8, frame.sequence);
  store_le<uint64_t>(bytes.data() + 16, salt);
  store_le<uint64_t>(bytes.data() + 24, frame.offset);
  store_le<uint64_t>(bytes.data() + 32, frame.length);
  checksum = continue_checksum(continue_checksum(continue_with_frame_header(checksum, bytes), replaced), payload);
  store_le<uint64_t>(bytes.data() + kFrameChecksumAt, checksum);
  return bytes;
}

std::optional<Frame> decode_frame(const FrameBytes& bytes, uint64_t salt, uint64_t sequence) {
  const auto kind = load_le<uint32_t>(bytes.data());
  const Frame frame{.kind = static_cast<FrameKind>(kind),
                    .sequence = field(bytes, 8),
                    .offset = field(bytes, 24),
                    .length = field(bytes, 32)};
  const bool data = frame.kind == FrameKind::data;
  if (kind < 1 || kind > 3 || frame.sequence != sequence || field(bytes, 16) != salt) return std::nullopt;
  if (frame.offset > kLargestOffset || frame.length > kLargestOffset - frame.offset) return std::nullopt;
  if (data != (frame.length != 0)) return std::nullopt;
  return frame;
}

uint64_t continue_with_frame_header(uint64_t checksum, const FrameBytes& bytes) {
  return continue_checksum(checksum, Bytes(bytes).first(kFrameChecksumAt));
}

uint64_t stored_checksum(const FrameBytes& bytes) { return field(bytes, kFrameChecksumAt); }

}  // namespace codecfs::hdf5
