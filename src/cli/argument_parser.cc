#include "cli/argument_parser.h"

#include <CLI/CLI.hpp>

namespace codecfs::cli {

struct ArgumentParser::Parser : CLI::App {
  using CLI::App::App;
};

ArgumentParser::ArgumentParser(const char* program, const char* description)
    : parser_(std::make_unique<Parser>(description, program)) {
  parser_->set_help_flag();
}

ArgumentParser::~ArgumentParser() = default;

void ArgumentParser::add_value(const char* name, std::string& value, const ArgumentHelp& help) {
  parser_->add_option(name, value, help.text)->type_name(help.value)->group(help.group)->required(help.required);
}

void ArgumentParser::add_values(const char* name, std::vector<std::string>& values, const ArgumentHelp& help) {
  parser_->add_option(name, values, help.text)
      ->type_name(help.value)
      ->expected(1, name[0] == '-' ? 1 : 1 << 20)
      ->allow_extra_args(name[0] != '-')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(help.group)
      ->required(help.required);
}

void ArgumentParser::add_flag(const char* name, bool& value, const ArgumentHelp& help) {
  parser_->add_flag(name, value, help.text)->group(help.group);
}

Result<> ArgumentParser::parse(int argc, const char* const* argv) {
  try {
    parser_->parse(argc, argv);
  } catch (const CLI::Error& error) {
    return fail(EINVAL, "{}", error.what());
  }
  return {};
}

bool ArgumentParser::has(const char* name) const { return parser_->count(name) > 0; }

std::string ArgumentParser::help() const { return parser_->help(); }

}  // namespace codecfs::cli
