#pragma once
// The bytes of a write-ahead log, format version 2. All integers are little-endian.
//
// The log of DIRECTORY/NAME is DIRECTORY/.NAME.codecfs-wal: one header, then frames without gaps. See log_name_for()
// for a NAME that is too long for this, and write_log_search.h for a source that was renamed since.
//
//   +--------------------- header: one sector of 512 bytes, always written whole ---------------------+
//   |   0  8  magic "CODECFSW"                                                                         |
//   |   8  4  format version: 2                                                                        |
//   |  12  4  flags: 1 = a checkpoint has begun, the source may be half written                        |
//   |  16  8  salt of this generation, random                                                          |
//   |  24  8  the source's device number            \   hints: they change with a copy or a reboot     |
//   |  32  8  the source's inode number              |                                                 |
//   |  40  8  the source's size in bytes             } when this generation began                      |
//   |  48  8  the source's mtime, ns since 1970      |                                                 |
//   |  56  8  CRC-64 of its first 4096 bytes        /                                                  |
//   |  64  8  sequence number of the last frame that the begun checkpoint copies; 0 where none has begun |
//   |  72  8  identifier of this log, random, the same in all its generations                          |
//   |  80 424 zeros                                                                                    |
//   | 504  8  CRC-64 of the 504 bytes before                                                           |
//   +--------------------------------------------------------------------------------------------------+
//   +--------------------- frame: 48 bytes, checksums of what it replaces, payload ---------------------+
//   |   0  4  kind: 1 data, 2 size, 3 commit                                                           |
//   |   4  4  zeros                                                                                    |
//   |   8  8  sequence number: 1, 2, 3... in each generation                                           |
//   |  16  8  salt of the generation                                                                   |
//   |  24  8  data: offset of the payload in the source; size: the new size of the source; commit: 0   |
//   |  32  8  data: bytes of payload, at least 1; else 0                                               |
//   |  40  8  CRC-64 of the 40 bytes before, of the n checksums and of the payload, continuing from the |
//   |         CRC-64 of the frame before it (of the first frame: from the CRC-64 of the 8 bytes of the salt) |
//   |  48 8*n CRC-64 of each of the n pieces of the source that the payload replaces                    |
//   | 48+8*n  payload                                                                                  |
//   +--------------------------------------------------------------------------------------------------+
//
// The pieces of a data frame: the part of its range below the source's size in the header, cut at multiples of 512.
// Their checksums are of the bytes in the source when this generation began, which do not change before a checkpoint.
// They prove that a file is the source of this log, wherever it is: before a checkpoint each piece holds the old bytes,
// and in one that was interrupted the old ones or the final ones, because a checkpoint writes the consecutive bytes of
// a sector with one call.
//
// Version 1 had no identifier and no checksums of pieces; device and inode had to be equal. Such logs are still read.
//
// A transaction is all frames up to a commit frame. Frames after the last commit frame that is reachable from the start
// over valid frames were not committed. A frame left by an earlier generation has another salt; a torn frame, and every
// frame after it, has a wrong checksum.
//
// A header that is incomplete or all zeros was never synced, so the log has no commit.
//
// CRC-64 is that of ECMA-182, as in .xz files. The checksum over all frames detects torn and stale bytes, but not
// forgery.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "base/file_io.h"

namespace codecfs::hdf5 {

inline constexpr uint32_t kLogFormatVersion = 2;
inline constexpr size_t kLogHeaderBytes = 512;
inline constexpr size_t kFrameHeaderBytes = 48;
inline constexpr uint64_t kSectorBytes = 512;          // that a disk writes whole or not at all
inline constexpr size_t kSourceHeadBytes = 4096;       // of the source, that its identity includes
inline constexpr size_t kCopyBytes = size_t{1} << 20;  // memory for copying and checking

/// "file.h5" -> ".file.h5.codecfs-wal". If the result is too long: a prefix of the name, "~" and a hash of the whole
/// name.
std::string log_name_for(const std::string& source_name);
/// The name of the source for the name of a log; empty if it is not such a name, or was truncated.
std::string source_name_for(const std::string& log_name);
/// Whether this may be the name of a log.
bool is_log_name(const std::string& name);
/// For the content of a deleted source (write_log_rescue.h): ".file.h5.codecfs-wal" -> "file.h5", for rescued_name(),
/// and
/// ".file.h5.codecfs-tmp", which it is called until it is complete. `log_name`: is_log_name().
std::string rescue_stem_for(const std::string& log_name);
std::string rescue_draft_for(const std::string& log_name);

/// CRC-64 of `bytes`, continuing from that of the bytes before them (0 where there are none).
uint64_t continue_checksum(uint64_t checksum, Bytes bytes);

/// Identifies a state of the source without reading all of it.
struct SourceIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;  // bytes
  int64_t mtime = 0;  // ns since 1970
  uint64_t head = 0;  // CRC-64 of the first kSourceHeadBytes (or of all there is)
  friend bool operator==(const SourceIdentity&, const SourceIdentity&) = default;
};
Result<SourceIdentity> identify(const File& source);

struct LogHeader {
  uint64_t salt = 0;
  SourceIdentity source;
  uint64_t checkpoint = 0;  // sequence number of the last frame of the checkpoint that has begun; 0: none
  uint64_t id = 0;          // of the log; 0 in version 1
  uint32_t version = kLogFormatVersion;
};
using HeaderBytes = std::array<std::byte, kLogHeaderBytes>;
HeaderBytes encode_header(const LogHeader& header);
/// None if the header was never synced. ENOTSUP: another format version. EUCLEAN: damaged, or not a log of codecfs.
Result<std::optional<LogHeader>> decode_header(Bytes bytes, const std::string& path);
/// A random salt, different for each generation.
Result<uint64_t> new_salt();

enum class FrameKind : uint32_t { data = 1, size = 2, commit = 3 };

struct Frame {
  FrameKind kind = FrameKind::data;
  uint64_t sequence = 0;
  uint64_t offset = 0;
  uint64_t length = 0;  // of the payload
  [[nodiscard]] uint64_t end() const { return offset + length; }
};
using FrameBytes = std::array<std::byte, kFrameHeaderBytes>;

/// The CRC-64 that the first frame of a generation continues from.
uint64_t first_checksum(uint64_t salt);
/// Number of pieces of the source that the frame replaces, for each of which an 8-byte checksum precedes the payload.
uint64_t replaced_pieces(const Frame& frame, const LogHeader& header);
/// Encodes a frame's header. `checksum` is that of the previous frame and is updated to that of this one. `replaced`
/// has the checksums of the pieces.
FrameBytes encode_frame(const Frame& frame, uint64_t salt, Bytes replaced, Bytes payload, uint64_t& checksum);
/// None if the bytes cannot be the frame of this sequence number and generation. Does not verify the checksum.
std::optional<Frame> decode_frame(const FrameBytes& bytes, uint64_t salt, uint64_t sequence);
/// CRC-64 of the covered part of a header, continuing from the previous frame; the caller continues it with the
/// checksums of the pieces and the payload.
uint64_t continue_with_frame_header(uint64_t checksum, const FrameBytes& bytes);
uint64_t stored_checksum(const FrameBytes& bytes);

}  // namespace codecfs::hdf5
