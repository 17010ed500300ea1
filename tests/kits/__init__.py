"""What tests share: small inputs, references that share no code with the package, releases to look at."""
