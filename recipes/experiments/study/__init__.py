"""The study: what does RL buy over supervised learning, on the same frozen splits?"""
