import gpnn as library


def test_it_prints_quality_and_writes_the_partition(gpnn, tiny, tmp_path):
    result = gpnn("partition", *tiny[:5], "-k", 4, "--out", "parts.safetensors")
    assert result.exit_code == 0, result.output
    assert "edge cut" in result.stdout
    assert "halo rows, all" in result.stdout
    assert library.Partition.load(tmp_path / "parts.safetensors").num_parts == 4


def test_every_method_side_by_side(gpnn, tiny):
    result = gpnn("partition", *tiny[:5], "-k", 4, "--compare")
    assert result.exit_code == 0, result.output
    assert all(name in result.stdout for name in library.partition.PARTITIONERS if name not in ("given", "auto"))
    assert "peak MiB" in result.stdout
    assert "components left out: `k` must be at most the" in result.stderr


def test_a_saved_partition_trains(gpnn, tiny, tmp_path):
    gpnn("partition", *tiny[:5], "-k", 5, "--out", "parts.safetensors")
    result = gpnn("train", *tiny, "partition.file=parts.safetensors", "--out", "run", "-q", "--no-report")
    assert result.exit_code == 0, result.output
    assert '"num_parts": 5' in (tmp_path / "run" / "metrics.json").read_text()


def test_too_many_parts_is_one_sentence(gpnn, tiny, tmp_path):
    result = gpnn("partition", *tiny[:5], "-k", 500, "--out", "parts.safetensors")
    assert result.exit_code == 2
    assert result.stderr.startswith("gpnn: `k` must be at most the")
    assert list(tmp_path.iterdir()) == []
