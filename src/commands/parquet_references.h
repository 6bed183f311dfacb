#pragma once
// References as kerchunk's directory of Parquet files, which readers load piece by piece. Source: LazyReferenceMapper
// of fsspec 2023.10 and later.
//
//   .zmetadata        {"metadata": {"v/.zarray": {...}, ...}, "record_size": N}
//   v/refs.K.parq     a row for each chunk from K * N on, in C order: path, offset, size; raw for chunks that are part
//                     of the references; null for those that are neither. Absent if there is no such chunk in it.

#include <memory>
#include <string>

#include "base/result.h"
#include "commands/reference_sink.h"

namespace codecfs::commands {

/// Makes a directory that gets its name when it is complete; it is removed if finish() was not called or failed. Holds
/// the rows of one file in memory. `url`: how readers name the source. EEXIST if `directory` exists. The sink returns
/// EOPNOTSUPP for a source that is one array, as fsspec finds no chunks outside directories.
Result<std::unique_ptr<ReferenceSink>> make_parquet_references(const std::string& directory, const std::string& url);

}  // namespace codecfs::commands
