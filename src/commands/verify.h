#pragma once
// `codecfs verify`: reads everything in a dataset and reports what is damaged.

#include <cstdint>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "base/result.h"
#include "commands/stored_places.h"
#include "model/json_value.h"

namespace codecfs::commands {

struct Damage {
  std::string path;    // of the group or variable
  std::string chunk;   // its name ("3.0"); empty: the whole variable, group or attributes
  std::string region;  // the elements of the chunk: "[6:8, 0:100]"
  uint64_t bytes = 0;  // decoded bytes that cannot be read
  std::string reason;
};

struct Verification {
  static constexpr size_t kMaxListed = 1000;

  uint64_t groups = 0;
  uint64_t variables = 0;
  uint64_t chunks = 0;         // that were read and decoded
  uint64_t stored_bytes = 0;   // of these
  uint64_t decoded_bytes = 0;  // of these
  uint64_t masked_chunks = 0;  // of these: those of which HDF5 skipped filters
  uint64_t not_compared = 0;   // chunks of which it is not known whether they overlap others: no disk space
  uint64_t damages = 0;
  uint64_t lost_bytes = 0;      // decoded
  std::vector<Damage> damaged;  // the first kMaxListed
  // Variables with chunks that no installed filter decodes, or with missing sources, and what a newer version of the
  // format's library wrote.
  std::vector<Damage> unchecked;
};

/// Reads all attributes, and reads and decodes all stored chunks on all cores; in a single HDF5 file, also checks that
/// stored chunks lie in the file and do not overlap; the places of more than `places_in_memory` are sorted in a
/// temporary file, of 32 bytes each. Errors of single objects are part of the result. ECANCELED.
Result<Verification> verify(Source& source, size_t places_in_memory = StoredPlaces::kMaxInMemory);

/// Lines for a terminal.
std::string verification_text(const Verification& found, const std::string& source);
Json verification_json(const Verification& found, const std::string& source);

}  // namespace codecfs::commands
