#pragma once
// Writes small Apache Parquet files: a flat table in one row group, with one zstd page for each column. Debian has no
// library of Parquet. Sources: the format specification and parquet.thrift of apache/parquet-format 2.10; Thrift's
// compact protocol.
//
//   "PAR1" | pages of the columns | FileMetaData | its length, 4 bytes | "PAR1"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::commands {

/// Not thread-safe. EFBIG for a column of 2 GiB or more, ENOMEM.
class ParquetWriter {
 public:
  /// `rows`: of every column.
  explicit ParquetWriter(uint32_t rows);

  /// A column of numbers (INT64). `values`: one for each row.
  Result<> add_numbers(std::string_view name, std::span<const int64_t> values);
  /// A column of UTF-8 that has the same text in some rows, and null in the others. The text is stored once.
  Result<> add_text(std::string_view name, std::string_view text, const std::vector<bool>& is_set);
  struct Cell {
    uint32_t row = 0;
    std::string bytes;
  };
  /// A column of byte strings, null in rows without a cell. `cells`: in ascending order of their rows.
  Result<> add_bytes(std::string_view name, std::span<const Cell> cells);

  /// The file. The last call.
  [[nodiscard]] std::string finish();

 private:
  struct Column {
    std::string name;
    int type = 0;
    bool is_optional = false;
    bool is_text = false;
    std::vector<int> encodings;
    uint64_t nulls = 0;
    uint64_t raw_bytes = 0;  // of the pages with their headers
    uint64_t bytes = 0;      // of the pages with their headers, compressed
    uint64_t first_page = 0;
    uint64_t dictionary_page = 0;  // 0: there is none
  };
  struct Page {
    bool is_dictionary = false;
    uint64_t values = 0;
    int encoding = 0;
  };
  Result<> add_page(Column& column, const Page& page, std::string_view content);
  [[nodiscard]] std::string metadata() const;

  const uint32_t rows_;
  std::string file_ = "PAR1";
  std::vector<Column> columns_;
};

}  // namespace codecfs::commands
