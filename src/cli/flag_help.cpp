#include "cli/flag_help.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/verbs.h"

namespace headroom::cli {
namespace {

constexpr int kLeastWidth = 40, kWidth = 80;
// Where the help of a flag begins, of 80 columns; of fewer the same part of them.
constexpr int kFlagColumn = 28;

std::string spelled(const Flag& flag) {
  std::string text =
      flag.short_name != 0 ? fmt::format("-{}, --{}", flag.short_name, flag.name) : "--" + flag.name;
  if (flag.kind != FlagKind::toggle) text += " " + (flag.value_name.empty() ? "VALUE" : flag.value_name);
  return text;
}

std::string spaces(int count) { return std::string(static_cast<std::size_t>(count), ' '); }

// Fills lines with words. The first line begins at `column`, and the others after `indent` spaces. `line_end`
// ends all lines but the last.
std::string fill_lines(const std::vector<std::string_view>& words, int column, int indent, int width,
                       std::string_view line_end) {
  const int room = width - static_cast<int>(line_end.size());
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty() && column + 1 + display_width(word) > room) {
      text += fmt::format("{}\n{}", line_end, spaces(indent));
      column = indent;
    } else if (!text.empty()) {
      text += ' ';
      ++column;
    }
    text += word;
    column += display_width(word);
  }
  return text;
}

std::string wrap_help(std::string_view text, int indent, int width) {
  return fill_lines(split_words(text), indent, indent, width, "");
}

// Split at spaces, but not at those within quotes: there a line may not be broken for the shell.
std::vector<std::string_view> shell_words_of(std::string_view command) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  char quote = 0;
  for (std::size_t i = 0; i <= command.size(); ++i) {
    const char c = i < command.size() ? command[i] : ' ';
    if (c == ' ' && (quote == 0 || i == command.size())) {
      words.push_back(command.substr(begin, i - begin));
      begin = i + 1;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    }
  }
  return words;
}

// A command that is longer than a line goes on in the next, as a shell takes it.
std::string example_lines(std::string_view command, int width) {
  constexpr int kIndent = 2, kIndentBelow = 6;
  const bool fits = kIndent + display_width(command) <= width;
  return spaces(kIndent) +
         (fits ? std::string(command)
               : fill_lines(shell_words_of(command), kIndent, kIndentBelow, width, " \\")) +
         "\n";
}

std::string flag_lines(const Flag& flag, int width) {
  const int column = kFlagColumn * width / kWidth;
  std::string head = "  " + spelled(flag);
  const int room = column - display_width(head);
  head += room > 0 ? spaces(room) : "\n" + spaces(column);
  std::string help = flag.help;
  if (!flag.choices.empty()) {
    const std::string choices = fmt::format(" ({})", fmt::join(flag.choices, "|"));
    // A list that is longer than a line needs places to wrap.
    const bool fits = display_width(choices) <= width - column;
    help += fits ? choices : fmt::format(" ({})", fmt::join(flag.choices, " | "));
  }
  if (!flag.default_text.empty()) help += fmt::format(" [{}]", flag.default_text);
  if (!flag.aliases.empty()) help += fmt::format(" (also --{})", fmt::join(flag.aliases, ", --"));
  return head + wrap_help(help, column, width) + "\n";
}

// Text for roff: backslashes and leading dots escaped, hyphens kept as hyphens.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  if (result.starts_with(".") || result.starts_with("'")) result.insert(0, "\\&");
  return result;
}

bool takes_path(const Flag& flag) {
  return flag.kind == FlagKind::text &&
         std::ranges::any_of(
             std::initializer_list<const char*>{"DIR", "FILE", "PATH", "SRC"},
             [&](const char* word) { return flag.value_name.find(word) != std::string::npos; });
}

std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string zsh_completion(const std::vector<const Verb*>& verbs) {
  std::string text = "#compdef headroom\n_headroom() {\n  if (( CURRENT == 2 )); then\n    local -a verbs=(";
  for (const Verb* verb : verbs) text += fmt::format("{} ", in_quotes(verb->name + ":" + verb->summary));
  text += ")\n    _describe verb verbs\n    return\n  fi\n  case $words[2] in\n";
  for (const Verb* verb : verbs) {
    text += fmt::format("    {}) _arguments -s", verb->name);
    for (const Flag& flag : verb->flags) {
      std::string help = flag.help;
      std::ranges::replace(help, '[', '(');
      std::ranges::replace(help, ']', ')');
      std::ranges::replace(help, ':', ';');
      std::string spec = fmt::format("{}--{}[{}]", flag.repeated ? "*" : "", flag.name, help);
      if (!flag.choices.empty())
        spec += fmt::format(":value:({})", fmt::join(flag.choices, " "));
      else if (takes_path(flag))
        spec += ":file:_files";
      else if (flag.kind != FlagKind::toggle)
        spec += ":value:";
      text += " " + in_quotes(spec);
    }
    text += " '*:file:_files' ;;\n";
  }
  return text + "  esac\n}\n_headroom \"$@\"\n";
}

std::string fish_completion(const std::vector<const Verb*>& verbs) {
  std::string text;
  for (const Verb* verb : verbs) {
    text += fmt::format("complete -c headroom -n __fish_use_subcommand -f -a {} -d {}\n", verb->name,
                        in_quotes(verb->summary));
    for (const Flag& flag : verb->flags) {
      text += fmt::format("complete -c headroom -n '__fish_seen_subcommand_from {}' -l {} -d {}", verb->name,
                          flag.name, in_quotes(flag.help));
      if (!flag.choices.empty())
        text += fmt::format(" -x -a '{}'", fmt::join(flag.choices, " "));
      else if (flag.kind != FlagKind::toggle)
        text += " -r";
      text += "\n";
    }
  }
  return text;
}

Result<int> show_help(const std::vector<std::string>& arguments) {
  const std::string wanted = arguments.empty() ? "" : arguments.front();
  std::vector<std::string> names;
  for (const Verb* verb : verb_list()) names.push_back(verb->name);
  const auto verb = std::ranges::find(verb_list(), wanted, &Verb::name);
  if (!arguments.empty() && verb == verb_list().end()) {
    if (!wanted.starts_with('-'))
      return usage_error(fmt::format("unknown verb '{}'", wanted), "",
                         did_you_mean(wanted, names, "headroom -h lists all verbs"));
    const std::string closest = closest_match(
        wanted.substr(std::min(wanted.find_first_not_of('-'), wanted.size())), {"help", "version"});
    return usage_error(
        fmt::format("unknown flag {}", wanted), "",
        closest.empty() ? "headroom -h lists all verbs" : fmt::format("did you mean --{}?", closest));
  }
  print_output(arguments.empty() ? program_help(verb_list()) : long_help(**verb));
  return 0;
}

Result<int> generate(const std::vector<std::string>& arguments) {
  const std::map<std::string, std::string (*)(const std::vector<const Verb*>&)> outputs{
      {"man", man_page}, {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
  const auto output = outputs.find(arguments.size() == 1 ? arguments.front() : "");
  if (output == outputs.end())
    return usage_error(fmt::format("headroom generate: unknown output '{}'", fmt::join(arguments, " ")), "",
                       "use man, bash, zsh or fish");
  print_output(output->second(verb_list()));
  return 0;
}

}  // namespace

int help_width() { return std::clamp(Screen().width, kLeastWidth, kWidth); }

std::string program_help(const std::vector<const Verb*>& verbs, int width) {
  constexpr int kSummary = 15;
  std::string text =
      wrap_help("Headroom measures, explains and limits the memory of neural networks.", 0, width) +
      "\nUsage: headroom VERB [FLAGS] …\n";  // 24 lines are one screen
  for (const Verb* verb : verbs)
    text += fmt::format("  {:<12} {}\n", verb->name, wrap_help(verb->summary, kSummary, width));
  text += "\nExample:\n" +
          example_lines("headroom bench --source photos --model detector=yolo.onnx --mem-limit 2GiB", width);
  return text +
         wrap_help("headroom help VERB: all flags. headroom --version --verbose: what is installed.", 0,
                   width) +
         "\n";
}

std::string short_help(const Verb& verb, int width) {
  std::string text =
      fmt::format("{}\n\nUsage: {}\n\n", wrap_help(verb.summary, 0, width), wrap_help(verb.usage, 7, width));
  for (const Flag& flag : verb.flags)
    if (flag.common) text += flag_lines(flag, width);
  text += "\nExamples:\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, verb.examples.size()); ++i)
    text += example_lines(verb.examples[i], width);
  return text + fmt::format("\nAll flags: headroom {} --help\n", verb.name);
}

std::string long_help(const Verb& verb, int width) {
  std::string text = fmt::format("{}\n\nUsage: {}\n\n{}\n", wrap_help(verb.summary, 0, width),
                                 wrap_help(verb.usage, 7, width), wrap_help(verb.description, 0, width));
  std::string group;
  for (const Flag& flag : verb.flags) {
    if (flag.group != group) text += fmt::format("\n{}:\n", flag.group);
    group = flag.group;
    text += flag_lines(flag, width);
  }
  if (!verb.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : verb.examples) text += example_lines(example, width);
  return text;
}

std::string man_page(const std::vector<const Verb*>& verbs) {
  std::string text = ".TH HEADROOM 1 \"\" \"headroom " HEADROOM_VERSION "\" \"User Commands\"\n";
  text += ".SH NAME\nheadroom \\- measure, limit and explain the memory of neural networks\n";
  text += ".SH SYNOPSIS\n.B headroom\n.I VERB\n[\\fIFLAGS\\fR]\n";
  for (const Verb* verb : verbs) {
    text += fmt::format(".SH {}\n{}.\n.PP\n.B {}\n", roff("HEADROOM " + verb->name), roff(verb->summary),
                        roff(verb->usage));
    if (!verb->description.empty()) text += fmt::format(".PP\n{}\n", roff(verb->description));
    for (const Flag& flag : verb->flags) {
      text += fmt::format(".TP\n.B {}\n{}", roff(spelled(flag)), roff(flag.help));
      if (!flag.default_text.empty()) text += fmt::format(" (default {})", roff(flag.default_text));
      text += "\n";
    }
    if (!verb->examples.empty()) text += ".PP\nExamples:\n.nf\n";
    for (const std::string& example : verb->examples) text += roff("  " + example) + "\n";
    if (!verb->examples.empty()) text += ".fi\n";
  }
  text +=
      ".SH EXIT STATUS\n0: success. 1: a model or a gate failed. 2: wrong usage or unreadable input. 3: "
      "internal error. 130: stopped by Ctrl\\-C.\n";
  return text;
}

std::string bash_completion(const std::vector<const Verb*>& verbs) {
  std::vector<std::string> names;
  for (const Verb* verb : verbs) names.push_back(verb->name);
  std::string text =
      "_headroom() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  text += fmt::format(
      "    COMPREPLY=($(compgen -W \"{} --help --version\" -- \"$cur\"))\n    return\n  fi\n  case $verb "
      "in\n",
      fmt::join(names, " "));
  for (const Verb* verb : verbs) {
    std::string flags;
    for (const Flag& flag : verb->flags) flags += fmt::format("{}--{}", flags.empty() ? "" : " ", flag.name);
    text += fmt::format("    {})\n      case $prev in\n", verb->name);
    for (const Flag& flag : verb->flags) {
      if (!flag.choices.empty())
        text += fmt::format("        --{}) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return ;;\n",
                            flag.name, fmt::join(flag.choices, " "));
      else if (takes_path(flag))
        text += fmt::format("        --{}) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", flag.name);
    }
    text += fmt::format(
        "      esac\n      case $cur in\n        -*) COMPREPLY=($(compgen -W \"{} --help\" -- \"$cur\")) ;;\n"
        "        *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n      esac ;;\n",
        flags);
  }
  return text + "  esac\n}\ncomplete -o filenames -F _headroom headroom\n";
}

const Verb& help_verb() {
  static const Verb kVerb{.name = "help",
                          .summary = "Show the full help of a verb",
                          .usage = "headroom help [VERB]",
                          .examples = {"headroom help bench"},
                          .positional = "VERB",
                          .run = show_help};
  return kVerb;
}

const Verb& generate_verb() {
  static const Verb kVerb{
      .name = "generate",
      .summary = "Print the man page or shell completions",
      .usage = "headroom generate man|bash|zsh|fish",
      .examples = {"headroom generate man > headroom.1", "headroom generate bash > headroom.bash"},
      .positional = "WHAT",
      .run = generate};
  return kVerb;
}

}  // namespace headroom::cli
