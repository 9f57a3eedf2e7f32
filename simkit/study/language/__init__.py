"""Language of study files: tables of TOML, checked and made into the arguments of verbs."""
