#pragma once
// The little that we know of an HDF5 file without libhdf5. Source: HDF5 File Format Specification 3.0, section II.A.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace codecfs::hdf5 {

/// Where the signature is: at 0 or, after a user block, at 512, 1024, 2048, ... None where there is none below
/// `within`.
std::optional<uint64_t> find_signature(int fd, uint64_t within = UINT64_MAX);

/// The bytes of a superblock of version 3 whose consistency flags say that a writer has the file open, with the flags
/// cleared and the checksum made anew; none for every other file.
std::optional<std::vector<std::byte>> unmarked_superblock(int fd, uint64_t address);

/// The same for bytes that are about to be written: clears the flags where `block` is such a superblock.
void clear_marks(std::span<std::byte> block);

/// Bob Jenkins' lookup3 hash, which HDF5 uses as checksum of its metadata.
uint32_t lookup3(std::span<const std::byte> bytes);

}  // namespace codecfs::hdf5
