#pragma once
// The arguments of a command line, as the commands declare them. CLI11 parses them; its headers take seconds to
// compile, so only argument_parser.cc includes them.
//
// The groups of --help have the order in which their first arguments are added. Not thread-safe.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace codecfs::cli {

/// How --help shows an argument.
struct ArgumentHelp {
  const char* group = "Options";  // of options
  const char* text;
  const char* value = "";  // what stands for the value of an option
  bool required = false;
};

class ArgumentParser {
 public:
  ArgumentParser(const char* program, const char* description);
  ~ArgumentParser();
  ArgumentParser(const ArgumentParser&) = delete;
  ArgumentParser& operator=(const ArgumentParser&) = delete;

  // parse() stores the values; they must outlive this object. `name` is that of a positional argument ("SOURCE") or of
  // an option with its aliases ("-u,--unmount").
  void add_value(const char* name, std::string& value, const ArgumentHelp& help);
  /// An option that may be repeated.
  void add_values(const char* name, std::vector<std::string>& values, const ArgumentHelp& help);
  /// An option without a value.
  void add_flag(const char* name, bool& value, const ArgumentHelp& help);

  /// EINVAL with a reason that names the argument.
  Result<> parse(int argc, const char* const* argv);

  [[nodiscard]] std::string help() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace codecfs::cli
