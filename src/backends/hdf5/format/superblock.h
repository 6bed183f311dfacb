#pragma once
// Reads the superblock of an HDF5 file without libhdf5. Source: HDF5 File Format Specification 3.0, section II.A.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace codecfs::hdf5 {

/// The offset of the signature: 0 or, after a user block, 512, 1024, 2048, ... None if there is none below `within`.
std::optional<uint64_t> find_signature(int fd, uint64_t within = UINT64_MAX);

/// How a file is stored. The files of HDF5's family, split and multi drivers are parts of one file. h5repart makes
/// families that do not say so.
struct DriverInfo {
  enum class Driver { other, family, multi };  // multi: also split
  Driver driver = Driver::other;
  uint64_t file_bytes = 0;    // the size of the whole file, as the superblock states it
  uint64_t base = 0;          // where all addresses begin, as the superblock states it
  uint64_t member_bytes = 0;  // family: the size of each member but the last
};
/// None if the superblock cannot be read.
std::optional<DriverInfo> driver_info(int fd);

/// If the consistency flags of a version 3 superblock say that a writer has the file open, returns its bytes with the
/// flags cleared and a new checksum; none for every other file.
std::optional<std::vector<std::byte>> unmarked_superblock(int fd, uint64_t address);

/// As unmarked_superblock(), for bytes that are about to be written: clears the flags if `block` is such a superblock.
void clear_marks(std::span<std::byte> block);

/// Bob Jenkins' lookup3 hash, HDF5's metadata checksum.
uint32_t lookup3(std::span<const std::byte> bytes);

}  // namespace codecfs::hdf5
