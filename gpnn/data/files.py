"""The files of the datasets: their folder, public addresses, checksums and state."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PLANETOID = "https://raw.githubusercontent.com/kimiyoung/planetoid/af6abf468a772cc055bec88c52e4d6f51b7c37e3"
_NELL = "https://media.githubusercontent.com/media/D61-IA/FisherGCN/140cb297acb89ece53947026224e5e85a8dc7312"
_BABI = "https://raw.githubusercontent.com/chingyaoc/ggnn.pytorch/0c7897fe9b05e9b4f9a963ff55bd3ad917ea734e"
# Folder under the root -> the public home of its files. NELL's are those of the Planetoid authors' archive
# (nell_data.tar.gz); this copy has them one by one, `ally` included, with their sha256 in public.
HOMES = {
    "planetoid/": f"{_PLANETOID}/data/",
    "nell/": f"{_NELL}/data/",
    "babi/fold_1/": f"{_BABI}/babi_data/processed_1/",
    "babi/fold_2/": f"{_BABI}/babi_data/processed_2/",
}
# Dataset -> how the paths of its files begin. A dataset that is not here has no file to fetch.
PREFIXES = {
    "cora": "planetoid/ind.cora.",
    "citeseer": "planetoid/ind.citeseer.",
    "pubmed": "planetoid/ind.pubmed.",
    "nell": "nell/",
    "babi": "babi/",
}
RECOVERED_LABELS = "nell/recovered_labels.npz"  # derived, so without a public home


@dataclass(frozen=True)
class DataFile:
    """A file of a dataset.

    Attributes:
        path: relative to the data folder.
        sha256: the checksum of its bytes.
        url: its public home, or None where it has none.
        optional: whether the dataset can be read without it.
    """

    path: str
    sha256: str
    url: str | None
    optional: bool = False


def data_folder(root: str | Path | None = None) -> Path:
    """The folder that holds the datasets: `root`, else `GPNN_DATA`, else `gpnn` in the user's cache."""
    if root is not None:
        return Path(root).expanduser()
    if os.environ.get("GPNN_DATA"):
        return Path(os.environ["GPNN_DATA"]).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "gpnn"


def dataset_files(name: str) -> tuple[DataFile, ...]:
    """Every file that the dataset `name` is read from; none for a generated or embedded one."""
    prefix = PREFIXES.get(name)
    return tuple(describe(path) for path in SHA256 if prefix and path.startswith(prefix))


def describe(path: str) -> DataFile:
    """The file at `path` under the data folder: its checksum, its public home."""
    home = next(folder for folder in HOMES if path.startswith(folder))
    url = None if path == RECOVERED_LABELS else HOMES[home] + path.removeprefix(home)
    optional = path == RECOVERED_LABELS or (path.startswith("nell/") and path.endswith(".ally"))
    return DataFile(path, SHA256[path], url, optional)


def file_state(file: DataFile, root: Path) -> str:
    """The state of a file: "ok", "corrupt", "missing", or "optional" (missing, not needed)."""
    path = root / file.path
    if not path.is_file():
        return "optional" if file.optional else "missing"
    return "ok" if sha256_of(path) == file.sha256 else "corrupt"


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def require(paths: Iterable[str], root: Path) -> None:
    """Download the files at `paths` that are not under `root` yet."""
    missing = [describe(path) for path in paths if not (root / path).is_file()]
    if missing:
        from gpnn.data.download import fetch_files

        fetch_files(missing, root)


SHA256 = {
    "planetoid/ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "planetoid/ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "planetoid/ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "planetoid/ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "planetoid/ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "planetoid/ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "planetoid/ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "planetoid/ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "planetoid/ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "planetoid/ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "planetoid/ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "planetoid/ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "planetoid/ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "planetoid/ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "planetoid/ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "planetoid/ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "planetoid/ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "planetoid/ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "planetoid/ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "planetoid/ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    "planetoid/ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "planetoid/ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "planetoid/ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
    "planetoid/ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
    "nell/ind.nell.0.001.allx": "092de8541bfd3a6a9a5364ea73224e08c3b0605033c69dc926f26004a3e93681",
    "nell/ind.nell.0.001.ally": "27de2d69a83b0f37272f1189acb209449e59224e6647c296d3b7e27c35d99b1c",
    "nell/ind.nell.0.001.graph": "865faeed5d7037fb21122844ec09292b9c8b59710dcf2dc126cc13069a70365b",
    "nell/ind.nell.0.001.test.index": "c546df8c960fc961b75d9566a1431c16d9a064725effdcd70a615ec0a31fe907",
    "nell/ind.nell.0.001.tx": "93016916f57043f6402d9c15654328dbda143f8adcf2b1afd2638caff76808bf",
    "nell/ind.nell.0.001.ty": "07a2a8a95063e14b05592322362011993ce95e7ddb87c8246ebd57607768a5c5",
    "nell/ind.nell.0.001.x": "284de725538a6703f3b26ac8f252dc1c43a2fd0df46e78a618a2391a0c9ed63a",
    "nell/ind.nell.0.001.y": "88926c6959052cffd51f1d4218b11c35403c0c43f21a52489fbec4676a6a205e",
    "nell/ind.nell.0.01.allx": "4e2c93ed6a9f248fcec138fabefd2916ff693297267e3f858312e27aea5f8803",
    "nell/ind.nell.0.01.ally": "99fe9de6903912df8fae40883ff7693ff7dd7d6f48475d776abd6c8f2d866214",
    "nell/ind.nell.0.01.graph": "063db7a768016a1a6e08a5312c1ed01212119acac13c6b3e07db56f93895617f",
    "nell/ind.nell.0.01.test.index": "d7d73cc342b2a01233540e92ee048aa2f9993b2ecd3f9c3cf031be8f363c7a0d",
    "nell/ind.nell.0.01.tx": "25e0e56749480cf1366fb4ff3668a93414b8a03adf71be2cbebfa1a7f16f44fd",
    "nell/ind.nell.0.01.ty": "1a2118bd9e646c0ee5dcd4e7c46ea8b0727a0486b435e89187ca79a1f7055136",
    "nell/ind.nell.0.01.x": "285b64425bcab7e370172f4593d80f5239f4dbbd2f84e4eed2f61572dd0c28e3",
    "nell/ind.nell.0.01.y": "a60cd8fa09bf28881f0ada3703fb6a8b12e819512de83899bbe398ed2341e145",
    "nell/ind.nell.0.1.allx": "3de26532dfa0abc1fd5219e820561568db7f4b082b54656fee174a486584e404",
    "nell/ind.nell.0.1.ally": "cdb2cc1ce6e6a3f1b88322534223437facfc1e7014971907090c782f25436370",
    "nell/ind.nell.0.1.graph": "ff8fa347ae594c60ef396c2758054d0602627f745ea5d70848da51d787df558d",
    "nell/ind.nell.0.1.test.index": "deaf5262ae65e99a8e65f884743a67b9d717951485c344303cb162b2b65dff1f",
    "nell/ind.nell.0.1.tx": "c83470933d18bf273f8b956ddaa854c830ecb56bc05a6b89b341ccf251ff9bf0",
    "nell/ind.nell.0.1.ty": "80795c6632af244521d52175d9352051c491e1e5597d009554f7775f9ed68e04",
    "nell/ind.nell.0.1.x": "127e23d8192d47b59baeb15accb7194a6df2af0155c783fa631d234dba3d12c8",
    "nell/ind.nell.0.1.y": "8d817a9af3e4d7aff627c733588a0bd2414b6c1599713f0e4280225942007417",
    "nell/recovered_labels.npz": "b8f760ccf524119e3b5b68188d2545c27ebd6429de54e122f6546f68e5579674",
    "babi/fold_1/test/15_graphs.txt": "38d4c8db050a430d7fe2dcf9b00a0939ebd583affcc72b7d7d9f3fad8ea50f0f",
    "babi/fold_1/test/16_graphs.txt": "8e2757aa51ca5ca717e5b56a2a761320ff4677e66dab602090f5c17945cee3b2",
    "babi/fold_1/test/18_graphs.txt": "e18053285f81f365821b1cc3d722ca73399c8fb2093671b7453a78ec4436803f",
    "babi/fold_1/test/19_graphs.txt": "c0e2735a1fc92d19dfcc8605137ae1b57a111c05b62967b8f6c46b3accd89eae",
    "babi/fold_1/test/4_graphs.txt": "fd509810236a208167533773becbe40c906c861e85e4dfab72620f7b7b3b67e6",
    "babi/fold_1/train/15_edge_types.txt": "9cb499d421174134046392f1f35fb14a8a2f27ac66df593c2d297d7cb48b8abd",
    "babi/fold_1/train/15_graphs.txt": "22b4c8d00cf4c9552ca7cf0a865c0517979127160fcc01d37fdf41cc0d964d5c",
    "babi/fold_1/train/15_labels.txt": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "babi/fold_1/train/15_node_ids.txt": "30e9a6ac8d47968f616d4c5f1142b2ae267866e22f67f164c5516fa92858b2f1",
    "babi/fold_1/train/15_question_types.txt": "ae70a17e9e7943fb2f6b8c54c85087deb47fe5228bb2422dd8a77cf44b413f29",
    "babi/fold_1/train/16_edge_types.txt": "f14ea822538a749754a5c0aa9c9ff396d4c79cb6ce7831f22fec066d36fe71d7",
    "babi/fold_1/train/16_graphs.txt": "b4dd45494cccad16c7617f46fffa8522022c779865dfa0f404bb858057b745d6",
    "babi/fold_1/train/16_labels.txt": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "babi/fold_1/train/16_node_ids.txt": "0564a9aa8c796da93e11c29e28d40b8bac863160f61fdf50e71aef939bebc1d8",
    "babi/fold_1/train/16_question_types.txt": "7785a6ebe5fb3adc2d42bd0369277f50b9ac89c4dc7e7f5abfc9269795e4619a",
    "babi/fold_1/train/18_edge_types.txt": "4901ae2ddd9ea500a27f3d54809dc6e88ad4f9a4dbe171fa678f70343f50dcc2",
    "babi/fold_1/train/18_graphs.txt": "1626122dbc9cce23874c3f0e49211593202a3b586323fbcc9f602f0b3cd28010",
    "babi/fold_1/train/18_labels.txt": "ce85de424a29a791da3cf7295398689331d6eabef79f5d18eede3e1779b34f34",
    "babi/fold_1/train/18_node_ids.txt": "ba85fd2e896729f3dcb2fa6331381efadd0fb130f0f2cff2412730af59b2419a",
    "babi/fold_1/train/18_question_types.txt": "d3ea646ef08a88978518c7c34d69c5eb4210c96a7910c08da72f58a2681e3271",
    "babi/fold_1/train/19_edge_types.txt": "2d0a727f57c2247030a29035f1dceb95b651237076aa7496234458073360c2b1",
    "babi/fold_1/train/19_graphs.txt": "84713b3889cfc9f3c7c25c0e7e20c9dc2041b035b0447bcec48d77ceb05da6a3",
    "babi/fold_1/train/19_labels.txt": "0477cb494b77f2bfd517b6ba33f2f2fe80be4c3edceecc9049162446b97d1627",
    "babi/fold_1/train/19_node_ids.txt": "acfccb42a0e0e26e2b7e00d018a0fe6f77d81956ea8ef57b69c633c2db9b5da6",
    "babi/fold_1/train/19_question_types.txt": "9ee20a2addbfe15ed2a77008f1a5cb72b7682bae620916aaaaca06473a11f0b6",
    "babi/fold_1/train/4_edge_types.txt": "27ea05cd03ab17d65f396d418931b1c5199f5ca65bd95d0e61fab8cebb779926",
    "babi/fold_1/train/4_graphs.txt": "acf205051fcd703a53754aface1fbe44f34c1427ebc92569750bba59aa2dc238",
    "babi/fold_1/train/4_labels.txt": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "babi/fold_1/train/4_node_ids.txt": "d47ca8e1957905e6ecbefc739ef6a279e802a168fd2160bc1266f36d57275c8a",
    "babi/fold_1/train/4_question_types.txt": "664ea244b40d1a5d9fe3be3248f87ffc46f256501b72a09fdc82fb617cae394c",
    "babi/fold_2/test/15_graphs.txt": "49b9bab7ff03b5caa2cfa01e65b3015379fa851275b89261a09ad72b2c854c48",
    "babi/fold_2/test/16_graphs.txt": "00841842a9e9c047637ee691fa3d38d670b1f317fc0788e655569d8eb0198e64",
    "babi/fold_2/test/18_graphs.txt": "cddd1b17cb95621d70cdcd97045006f45ad298abdd80550739aee59da64b895f",
    "babi/fold_2/test/19_graphs.txt": "26e851fba18bfdaae11859b0bbf5af1ca6ffcf02f78fe264ae78308e393886bd",
    "babi/fold_2/test/4_graphs.txt": "744256def0960c235bfb7568758459328be8124856eb7e38ad894be510f2f826",
    "babi/fold_2/train/15_edge_types.txt": "9cb499d421174134046392f1f35fb14a8a2f27ac66df593c2d297d7cb48b8abd",
    "babi/fold_2/train/15_graphs.txt": "f03ad8d28fac20f05344f49ed36c4e32531d3c4cdd3295a4500812bde03c364e",
    "babi/fold_2/train/15_labels.txt": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "babi/fold_2/train/15_node_ids.txt": "e34da082673a6a9b2b1b14b0fae313c175e0c91630b8a678141cfad2a451b841",
    "babi/fold_2/train/15_question_types.txt": "ae70a17e9e7943fb2f6b8c54c85087deb47fe5228bb2422dd8a77cf44b413f29",
    "babi/fold_2/train/16_edge_types.txt": "f14ea822538a749754a5c0aa9c9ff396d4c79cb6ce7831f22fec066d36fe71d7",
    "babi/fold_2/train/16_graphs.txt": "81100d7918afcf20d5ade94d3c1a587b1183863ff9654d98b31b385ffe7cc94d",
    "babi/fold_2/train/16_labels.txt": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "babi/fold_2/train/16_node_ids.txt": "50d8b17a493af725736fa30cfce7be74d4f9bdbed788081bc6cd313c2252ac6d",
    "babi/fold_2/train/16_question_types.txt": "7785a6ebe5fb3adc2d42bd0369277f50b9ac89c4dc7e7f5abfc9269795e4619a",
    "babi/fold_2/train/18_edge_types.txt": "4901ae2ddd9ea500a27f3d54809dc6e88ad4f9a4dbe171fa678f70343f50dcc2",
    "babi/fold_2/train/18_graphs.txt": "372ad4e9274959330590e19c73d799f3daecf52e9173834ff21e3b914865cfb6",
    "babi/fold_2/train/18_labels.txt": "ce85de424a29a791da3cf7295398689331d6eabef79f5d18eede3e1779b34f34",
    "babi/fold_2/train/18_node_ids.txt": "11a051993b001a2ce43c916b7ca2db2cea2d4bc9dc641f0a92d5815b271ee658",
    "babi/fold_2/train/18_question_types.txt": "d3ea646ef08a88978518c7c34d69c5eb4210c96a7910c08da72f58a2681e3271",
    "babi/fold_2/train/19_edge_types.txt": "3bae4a23b61db3c67cce615c6a28329b5f1f351ca317de833915a0bd6e62440d",
    "babi/fold_2/train/19_graphs.txt": "70ef57f5f8c009c7b31f91d1f4159712400b6105b2074bb2f499c590dece546f",
    "babi/fold_2/train/19_labels.txt": "2441d0a900b4b07e1a7af6d432180d4ca1528135cd72233b2266586f23a1fff6",
    "babi/fold_2/train/19_node_ids.txt": "38bec3ffccf8e3034106f8be97394230a7e938a16ab78643afd286afceb91ea3",
    "babi/fold_2/train/19_question_types.txt": "9ee20a2addbfe15ed2a77008f1a5cb72b7682bae620916aaaaca06473a11f0b6",
    "babi/fold_2/train/4_edge_types.txt": "fd015767474aab8975d340b281561af2844be9c9df91b6b254792d1e5d11acbd",
    "babi/fold_2/train/4_graphs.txt": "744256def0960c235bfb7568758459328be8124856eb7e38ad894be510f2f826",
    "babi/fold_2/train/4_labels.txt": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "babi/fold_2/train/4_node_ids.txt": "4d85b246a9b7133efb3b1b014b6f0017bab68c8d888c144e703512504776efdd",
    "babi/fold_2/train/4_question_types.txt": "4f9bc083aeecd7fcd4ebc627a868a94929804434de9316d7a4573d1f82fd7009",
}
