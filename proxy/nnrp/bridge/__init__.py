"""OpenAI over HTTP in front, NNRP behind: the bridge by which existing clients reach NNRP servers."""
