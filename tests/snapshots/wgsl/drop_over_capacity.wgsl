var<workgroup> shared_v39: array<u32, 256>;
@group(0) @binding(3) var<storage, read_write> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(256, 1, 1)
fn drop_over_capacity(@builtin(workgroup_id) v278: vec3<u32>, @builtin(local_invocation_index) v280: u32) {
let v286 = &v13;
let v287 = &v9;
let v288 = &v5;
let v289 = &v1;
let v3 = u32(0);
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_usize[1];
let v19 = info_var.scalars_u32[0];
let v279 = v278[0];
let v21 = u32(v279);
let v25 = &(*v288)[v21];
let v26 = *v25;
let v27 = u32(v26);
let v28 = v21 < v17;
let v29 = u32(1);
let v30 = v21 + v29;
let v31 = min(v30, v17);
let v35 = &(*v288)[v31];
let v36 = *v35;
let v37 = u32(v36);
let v38 = select(v18, v37, v28);
let v262 = &shared_v39;
let v41 = u32(256);
let v43 = u32(0);
var<function> v263_store: u32;
let v263 = &v263_store;
*v263 = v43;
let v47 = u32(31);
let v48 = u32(1);
for(var v49: u32 = v43; v49 < v47; v49 += v48) {
let v51 = u32(30);
let v52 = v51 - v49;
let v54 = v48 << u32(v52);
let v55 = *v263;
let v56 = v55 | v54;
var<function> v265_store: u32;
let v265 = &v265_store;
*v265 = v43;
let v281 = v280;
let v61 = u32(v281);
let v62 = v27 + v61;
for(var v64: u32 = v62; v64 < v38; v64 += v41) {
let v69 = &(*v289)[v64];
let v70 = *v69;
let v71 = u32(v70);
let v75 = &(*v287)[v71];
let v76 = *v75;
let v77 = u32(2147483647);
let v78 = v76 & v77;
let v79 = v78 >= v56;
let v82 = select(v43, v48, v79);
let v83 = *v265;
let v84 = v83 + v82;
*v265 = v84;

}
let v90 = &(*v262)[v61];
let v91 = *v265;
*v90 = v91;
workgroupBarrier();
var<function> v267_store: u32;
let v267 = &v267_store;
*v267 = v43;
for(var v98: u32 = v3; v98 < v41; v98 += v29) {
let v103 = &(*v262)[v98];
let v104 = *v103;
let v105 = *v267;
let v106 = v105 + v104;
*v267 = v106;

}
workgroupBarrier();
let v107 = *v267;
let v108 = v107 >= v19;
let v109 = *v263;
let v110 = select(v109, v56, v108);
*v263 = v110;

}
let v111 = *v263;
let v113 = v111 + v48;
var<function> v269_store: u32;
let v269 = &v269_store;
*v269 = v43;
let v283 = v280;
let v118 = u32(v283);
let v119 = v27 + v118;
for(var v121: u32 = v119; v121 < v38; v121 += v41) {
let v126 = &(*v289)[v121];
let v127 = *v126;
let v128 = u32(v127);
let v132 = &(*v287)[v128];
let v133 = *v132;
let v134 = u32(2147483647);
let v135 = v133 & v134;
let v136 = v135 >= v113;
let v139 = select(v43, v48, v136);
let v140 = *v269;
let v141 = v140 + v139;
*v269 = v141;

}
let v147 = &(*v262)[v118];
let v148 = *v269;
*v147 = v148;
workgroupBarrier();
var<function> v271_store: u32;
let v271 = &v271_store;
*v271 = v43;
for(var v155: u32 = v3; v155 < v41; v155 += v29) {
let v160 = &(*v262)[v155];
let v161 = *v160;
let v162 = *v271;
let v163 = v162 + v161;
*v271 = v163;

}
workgroupBarrier();
let v166 = v38 - v27;
let v168 = v166 + v41;
let v170 = v168 - v29;
let v172 = v170 / v41;
let v173 = v118 * v172;
let v174 = v27 + v173;
let v175 = min(v174, v38);
let v176 = v175 + v172;
let v177 = min(v176, v38);
var<function> v273_store: u32;
let v273 = &v273_store;
*v273 = v43;
for(var v182: u32 = v175; v182 < v177; v182 += v29) {
let v187 = &(*v289)[v182];
let v188 = *v187;
let v189 = u32(v188);
let v193 = &(*v287)[v189];
let v194 = *v193;
let v195 = u32(2147483647);
let v196 = v194 & v195;
let v197 = *v263;
let v198 = v196 == v197;
let v201 = select(v43, v48, v198);
let v202 = *v273;
let v203 = v202 + v201;
*v273 = v203;

}
let v208 = *v273;
*v147 = v208;
workgroupBarrier();
var<function> v275_store: u32;
let v275 = &v275_store;
let v210 = *v271;
*v275 = v210;
for(var v213: u32 = v3; v213 < v118; v213 += v29) {
let v218 = &(*v262)[v213];
let v219 = *v218;
let v220 = *v275;
let v221 = v220 + v219;
*v275 = v221;

}
for(var v223: u32 = v175; v223 < v177; v223 += v29) {
let v228 = &(*v289)[v223];
let v229 = *v228;
let v230 = u32(v229);
let v234 = &(*v287)[v230];
let v235 = *v234;
let v236 = u32(2147483647);
let v237 = v235 & v236;
let v238 = *v263;
let v239 = v237 == v238;
let v241 = v237 > v238;
let v242 = *v275;
let v243 = v242 < v19;
let v244 = v239 && v243;
let v245 = v241 || v244;
let v248 = select(v43, v48, v239);
let v250 = v242 + v248;
*v275 = v250;
let v251 = select(v17, v21, v245);
let v252 = u32(v251);
let v256 = &(*v286)[v230];
*v256 = v252;

}
return;

}
