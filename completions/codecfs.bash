# bash completion for codecfs(8)                           -*- shell-script -*-

_codecfs_filters="none shuffle deflate zstd blosc lz4 bzip2 szip lzf bitshuffle fletcher32"
_codecfs_commands="info verify compare recode convert refs filters status set unmount check recover compact"

# The options of a command, or of a mount.
_codecfs_words_of() {
  case $1 in
    info) echo "-v --verbose --json --plot --html -O --options --help" ;;
    verify | compare) echo "--json -O --options --help" ;;
    recode) echo "--dry-run --estimate --stock-filters -F --filter -O --options --help" ;;
    convert) echo "--format --libver --portable --resume --skip --skip-unsupported --stock-filters -F --filter -O --options --help" ;;
    refs) echo "-o --output --parquet --url -O --options --help" ;;
    filters) echo "--check --parameters -O --options --help" ;;
    status) echo "--json --prometheus --help" ;;
    set | unmount | check | recover | compact) echo "--help" ;;
    *) echo "-o -F -f --foreground --help --version" ;;
  esac
}

# The last part of $1, behind all of the separators in $2, completed with the words in $3.
_codecfs_part() {
  local typed=$1 separators=$2 words=$3 last kept word
  last=${typed##*[$separators]}
  kept=${typed%"$last"}
  COMPREPLY=()
  for word in $words; do
    [[ $word == "$last"* ]] && COMPREPLY+=("$kept$word")
  done
}

# Readline replaces what is behind the last of COMP_WORDBREAKS alone.
_codecfs_trim() {
  local typed=$1 separator i
  for separator in : =; do
    [[ $COMP_WORDBREAKS == *"$separator"* && $typed == *"$separator"* ]] || continue
    local shown=${typed%"${typed##*"$separator"}"}
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$shown"}; done
    typed=${typed##*"$separator"}
  done
}

_codecfs_options() {
  local typed=$1 last kept i
  last=${typed##*,}
  kept=${typed%"$last"}
  case $last in
    builtin=off:*) _codecfs_part "$last" : "shuffle deflate fletcher32 szip zstd blosc lz4 bzip2 lzf bitshuffle" ;;
    builtin=*) _codecfs_part "$last" = "on off off:" ;;
    plugins=*) _codecfs_part "$last" = "off on" ;;
    create=*) _codecfs_part "$last" = "hdf5 zarr zarr3 zip nczarr" ;;
    view=*) _codecfs_part "$last" = "decoded encoded decoded3 encoded3 npy raw netcdf" ;;
    strings=*) _codecfs_part "$last" = "vlen fixed bytes" ;;
    chunks=*) _codecfs_part "$last" = "stored clamped" ;;
    follow=*) _codecfs_part "$last" = "all beneath" ;;
    transport=*) _codecfs_part "$last" = "auto passthrough push read" ;;
    addressing=*) _codecfs_part "$last" = "auto path virtual" ;;
    isolate=*) _codecfs_part "$last" = "on off" ;;
    loglevel=*) _codecfs_part "$last" = "debug info warning error" ;;
    max_chunk=*) _codecfs_part "$last" = "64M 128M 256M 512M 1G" ;;
    cache=* | cache_size=* | dirty=* | index=* | passthrough_size=*) _codecfs_part "$last" = "64M 128M 256M 512M 1G 4G" ;;
    plugin_path=* | cache_dir=*)
      local at=${last##*[=:]}
      COMPREPLY=()
      while IFS= read -r i; do COMPREPLY+=("${last%"$at"}$i"); done < <(compgen -d -- "$at")
      ;;
    log=* | ca_file=* | header_file=* | token_file=*)
      COMPREPLY=()
      while IFS= read -r i; do COMPREPLY+=("${last%%=*}=$i"); done < <(compgen -f -- "${last#*=}")
      ;;
    *=*) COMPREPLY=() ;;
    *)
      _codecfs_part "$last" , "absent= account= addressing= allow_other allow_root anon auto_unmount builtin= ca_file= cache= cache_dir= cache_size= chunks= coherent commit= connections= create= credential_process= credential_url= debug dirty=
        endpoint= filter= follow= header_file= idle= index= isolate= log= loglevel= max_chunk= mkdir nodelete nofail nonempty passthrough_size= path_style
        plugin_path= plugins= portable profile= region= requester_pays retry= ro rw stock-filters strings= threads= token_file= transport= view= default_permissions noatime noexec"
      ;;
  esac
  for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=$kept${COMPREPLY[i]}; done
}

_codecfs() {
  # The word as it was typed, whatever readline has split it at (':', '=').
  local line=${COMP_LINE:0:COMP_POINT}
  local typed=${line##*[[:space:]]} before=${line%"${line##*[[:space:]]}"} i
  before=${before%"${before##*[![:space:]]}"}
  before=${before##*[[:space:]]}
  local quoted=
  [[ $typed == [\'\"]* ]] && quoted=yes typed=${typed:1}
  COMPREPLY=()
  compopt +o nospace 2>/dev/null
  # The command, which is the first word.
  local first=${line#"${line%%[[:space:]]*}"} command=
  first=${first#"${first%%[![:space:]]*}"}
  [[ $first == *[[:space:]]* ]] && command=${first%%[[:space:]]*}
  [[ $command == refs && $before == -o ]] && before=
  case $before in
    --format)
      _codecfs_part "$typed" ' ' "hdf5 zarr zarr3 zip nczarr"
      return
      ;;
    --libver)
      _codecfs_part "$typed" ' ' "v110 latest"
      return
      ;;
    -o | -O | --options)
      _codecfs_options "$typed"
      compopt -o nospace 2>/dev/null
      [[ $quoted ]] || _codecfs_trim "$typed"
      return
      ;;
    -F | --filter)
      if [[ $typed == *,* ]]; then
        if [[ ${typed##*|} == *,*,* || (${typed##*|} == *,* && $typed == *\|*) ]]; then return; fi
        _codecfs_part "$typed" ',|' "$_codecfs_filters"
      else
        _codecfs_part "$typed" ',' "none *,"
      fi
      compopt -o nospace 2>/dev/null
      return
      ;;
  esac
  if [[ $typed == -* ]]; then
    _codecfs_part "$typed" ' ' "$(_codecfs_words_of "$command")"
    return
  fi
  compopt -o filenames 2>/dev/null
  while IFS= read -r i; do COMPREPLY+=("$i"); done < <(compgen -f -- "$typed")
  [[ $first == "$typed" ]] && while IFS= read -r i; do COMPREPLY+=("$i"); done < <(compgen -W "$_codecfs_commands" -- "$typed")
}

complete -F _codecfs codecfs
