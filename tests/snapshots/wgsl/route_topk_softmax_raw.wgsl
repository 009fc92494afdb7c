@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_topk_softmax_raw(@builtin(workgroup_id) v268: vec3<u32>, @builtin(num_workgroups) v270: vec3<u32>, @builtin(local_invocation_index) v277: u32) {
let v298 = &v13;
let v299 = &v9;
let v300 = &v5;
let v301 = &v1;
let v3 = u32(0);
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v19 = info_var.scalars_usize[2];
let v269 = v268[2];
let v200 = u32(v269);
let v271 = v270[1];
let v202 = u32(v271);
let v203 = v200 * v202;
let v272 = v270[0];
let v205 = u32(v272);
let v206 = v203 * v205;
let v273 = v268[1];
let v208 = u32(v273);
let v211 = v208 * v205;
let v212 = v206 + v211;
let v275 = v268[0];
let v214 = u32(v275);
let v215 = v212 + v214;
let v295 = u32(64);
let v218 = v215 * v295;
let v278 = v277;
let v220 = u32(v278);
let v221 = v218 + v220;
let v21 = v221 < v17;
if v21 {
let v23 = v221 * v18;
let v25 = v221 * v19;
let v26 = f32(-3.4028234663852886e38);
var<function> v183_store: f32;
let v183 = &v183_store;
*v183 = v26;
let v30 = u32(1);
for(var v31: u32 = v3; v31 < v18; v31 += v30) {
let v33 = v23 + v31;
let v37 = &(*v301)[v33];
let v38 = *v37;
let v39 = *v183;
let v40 = max(v39, v38);
*v183 = v40;

}
let v41 = f32(0.0);
var<function> v185_store: f32;
let v185 = &v185_store;
*v185 = v41;
for(var v46: u32 = v3; v46 < v18; v46 += v30) {
let v48 = v23 + v46;
let v52 = &(*v301)[v48];
let v53 = *v52;
let v54 = *v183;
let v55 = v53 - v54;
let v56 = exp(v55);
let v57 = *v185;
let v58 = v57 + v56;
*v185 = v58;

}
for(var v61: u32 = v3; v61 < v18; v61 += v30) {
var<function> v188_store: f32;
let v188 = &v188_store;
*v188 = v41;
let v66 = v23 + v61;
let v70 = &(*v301)[v66];
let v71 = *v70;
let v72 = *v183;
let v73 = v71 - v72;
let v74 = exp(v73);
let v75 = *v185;
let v76 = v74 / v75;
*v188 = v76;
let v81 = &(*v298)[v66];
let v82 = *v188;
*v81 = v82;

}
let v83 = u32(4294967295);
var<function> v189_store: u32;
let v189 = &v189_store;
*v189 = v83;
var<function> v190_store: u32;
let v190 = &v190_store;
*v190 = v3;
var<function> v191_store: f32;
let v191 = &v191_store;
*v191 = v41;
var<function> v192_store: f32;
let v192 = &v192_store;
*v192 = v41;
for(var v97: u32 = v3; v97 < v19; v97 += v30) {
var<function> v194_store: u32;
let v194 = &v194_store;
*v194 = v18;
let v100 = u32(0);
var<function> v195_store: u32;
let v195 = &v195_store;
*v195 = v100;
for(var v105: u32 = v3; v105 < v18; v105 += v30) {
let v107 = v23 + v105;
let v111 = &(*v301)[v107];
let v112 = *v111;
let v113 = bitcast<u32>(v112);
let v114 = u32(2147483648);
let v115 = v113 == v114;
let v117 = select(v113, v100, v115);
let v118 = u32(31);
let v119 = v117 >> u32(v118);
let v120 = u32(1);
let v121 = v119 == v120;
let v122 = ~v117;
let v124 = v117 | v114;
let v125 = select(v124, v122, v121);
let v126 = u32(2147483647);
let v127 = v117 & v126;
let v128 = u32(2139095040);
let v129 = v127 > v128;
let v131 = select(v125, v100, v129);
let v132 = *v189;
let v133 = v131 < v132;
let v135 = v131 == v132;
let v136 = *v190;
let v137 = v105 > v136;
let v138 = v135 && v137;
let v139 = v133 || v138;
let v140 = *v194;
let v141 = v140 == v18;
let v142 = *v195;
let v143 = v131 > v142;
let v144 = v141 || v143;
var<function> v197_store: bool;
let v197 = &v197_store;
if v139 {
*v197 = v144;

} else {
let v146 = false;
*v197 = v146;

}
let v147 = *v197;
if v147 {
*v194 = v105;
*v195 = v131;

}

}
let v148 = *v194;
let v149 = u32(v148);
let v150 = v25 + v97;
let v154 = &(*v300)[v150];
*v154 = v149;
var<function> v198_store: f32;
let v198 = &v198_store;
*v198 = v41;
let v158 = *v194;
let v159 = v158 < v18;
if v159 {
let v160 = *v195;
*v189 = v160;
let v161 = *v194;
*v190 = v161;
let v162 = *v194;
let v163 = v23 + v162;
let v167 = &(*v298)[v163];
let v168 = *v167;
*v198 = v168;

}
let v173 = &(*v299)[v150];
let v174 = *v198;
*v173 = v174;
let v175 = *v192;
let v177 = v175 + v174;
*v192 = v177;

}

}
return;

}
